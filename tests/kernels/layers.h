/* The convolutions of ResNet-18 and ResNet-50 (stride on the 3 x 3 of a bottleneck) at 224 x 224 that differ in shape,
 * one picture, each with bias and ReLU: the shapes that every kernel of `conv` is timed at, and `linear` where a pass turns a
 * 1 x 1 into one. */
#ifndef LAYERS_H
#define LAYERS_H

#include "case.h"

typedef struct {
    const char *models;
    int64_t size, C, O, kernel, stride; /* size: of x, a square; padded by kernel / 2 */
} conv_layer;

static const conv_layer conv_layers[] = {
    {"resnet18,50", 224, 3, 64, 7, 2},
    {"resnet18,50", 56, 64, 64, 3, 1},
    {"resnet18", 56, 64, 128, 3, 2},
    {"resnet50", 56, 128, 128, 3, 2},
    {"resnet18,50", 28, 128, 128, 3, 1},
    {"resnet18", 28, 128, 256, 3, 2},
    {"resnet50", 28, 256, 256, 3, 2},
    {"resnet18,50", 14, 256, 256, 3, 1},
    {"resnet18", 14, 256, 512, 3, 2},
    {"resnet50", 14, 512, 512, 3, 2},
    {"resnet18,50", 7, 512, 512, 3, 1},
    {"resnet18", 56, 64, 128, 1, 2},
    {"resnet18", 28, 128, 256, 1, 2},
    {"resnet18", 14, 256, 512, 1, 2},
    {"resnet50", 56, 256, 512, 1, 2},
    {"resnet50", 28, 512, 1024, 1, 2},
    {"resnet50", 14, 1024, 2048, 1, 2},
    {"resnet50", 56, 64, 64, 1, 1},
    {"resnet50", 56, 64, 256, 1, 1},
    {"resnet50", 56, 256, 64, 1, 1},
    {"resnet50", 56, 256, 128, 1, 1},
    {"resnet50", 28, 128, 512, 1, 1},
    {"resnet50", 28, 512, 128, 1, 1},
    {"resnet50", 28, 512, 256, 1, 1},
    {"resnet50", 14, 256, 1024, 1, 1},
    {"resnet50", 14, 1024, 256, 1, 1},
    {"resnet50", 14, 1024, 512, 1, 1},
    {"resnet50", 7, 512, 2048, 1, 1},
    {"resnet50", 7, 2048, 512, 1, 1},
};
enum { CONV_LAYERS = sizeof conv_layers / sizeof conv_layers[0] };

static inline int is_linear_layer(const conv_layer *l) { return l->kernel == 1 && l->stride == 1; }
static inline int64_t places_of_layer(const conv_layer *l) { return (l->size / l->stride) * (l->size / l->stride); }

/* Makes the case of a layer a timed one. */
static inline void name_layer(test_case *c, const conv_layer *l) {
    case_timed(c, 2.0 * (double)(places_of_layer(l) * l->C * l->O * l->kernel * l->kernel), "%s %ldx%ld/%ld %ld to %ld, %ldx%ld",
               l->models, (long)l->kernel, (long)l->kernel, (long)l->stride, (long)l->C, (long)l->O, (long)l->size, (long)l->size);
}

#endif
