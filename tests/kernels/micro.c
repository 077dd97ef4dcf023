/* The micro-kernel with a product that no kernel has (bytes.c), for each instruction set of this machine. */
#include "isa_table.h"
#include "suite.h"

#define ROW(isa) void test_bytes_##isa(void);
EB_VECTOR_ISAS(ROW)
#undef ROW

void test_micro(void) {
#define ROW(isa) \
    if (is_isa_here(#isa)) test_bytes_##isa();
    EB_VECTOR_ISAS(ROW)
#undef ROW
}
