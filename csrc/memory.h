/* Memory as a program has it: NumPy asks for large pages where an array is large, and a page costs more to find than
 * its bytes to read where it is small (a virtual machine, one core: 18 GB/s on pages of 4 KiB, 30 on pages of 2 MiB). */
#ifndef EB_MEMORY_H
#define EB_MEMORY_H

#include <stdint.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* At least `bytes`, aligned to 64; to be given to free. NULL where there is no memory. */
static inline void *eb_allocate(int64_t bytes) {
    size_t page = bytes >= 4 << 20 ? 2 << 20 : 64, size = ((size_t)bytes + page) / page * page;
    void *data = aligned_alloc(page, size);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (data && page > 64) madvise(data, size, MADV_HUGEPAGE);
#endif
    return data;
}

#endif
