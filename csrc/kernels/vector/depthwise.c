/* conv whose every channel is convolved alone: groups, channels of x and channels of the result are one number. */
#include "depthwise_sums.h"
#include "group_conv.h"

/* The weight [O, 1, kh, kw] of as many groups as it has rows. */
static int fits(const eb_node *node) {
    const eb_tensor *w = eb_input(node, EB_IN_CONV_WEIGHT);
    return is_image_conv(node) && w->shape[1] == 1 && node->ints[EB_INT_CONV_GROUPS] == w->shape[0];
}

EB_PLACES_KERNEL(depthwise)
