/* collective.h: libgearbox_collective.so, as ctypes sees it. Plain C, so that it serves every Python version.
 *
 * Threads: one handle belongs to one thread at a time; gbx_abort may be called from any thread or process that has the region open.
 * Every call that waits returns 0, or GBX_ABORTED (the epoch is over), GBX_TIMEOUT, GBX_WRONG (an index or a region that cannot be).
 * After anything but 0 a handle is of no more use than to be closed. */
#ifndef GEARBOX_COLLECTIVE_H
#define GEARBOX_COLLECTIVE_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define GBX_OK 0
#define GBX_ABORTED 1
#define GBX_TIMEOUT 2
#define GBX_WRONG 3

typedef struct gbx_collective gbx_collective;

/* Bytes that a region needs; 0: a number is out of bounds. slot_bytes is a multiple of 64: larger tensors go in pieces of it. */
uint64_t gbx_region_bytes(const uint32_t* members, uint32_t groups, uint32_t channels, uint64_t slot_bytes);

/* Writes the header of a new region (zeroed memory of gbx_region_bytes, 64-byte aligned). The driver, before any rank opens it. */
int gbx_region_format(void* region, uint64_t bytes, const uint32_t* members, uint32_t groups, uint32_t channels, uint64_t slot_bytes);

/* NULL: this is no region, or it does not fit `bytes`. The memory must stay mapped until gbx_close. */
gbx_collective* gbx_open(void* region, uint64_t bytes);
void gbx_close(gbx_collective* self);

/* Sums `count` floats over all members of `group`, in place. Added in the order of members: all get the same bits. */
int gbx_all_reduce(gbx_collective* self, uint32_t group, uint32_t member, float* data, uint64_t count, uint32_t timeout_ms);

/* `out` gets the `bytes` of each member, one after the other. */
int gbx_all_gather(gbx_collective* self, uint32_t group, uint32_t member, const void* data, uint64_t bytes, void* out,
                   uint32_t timeout_ms);

int gbx_barrier(gbx_collective* self, uint32_t group, uint32_t member, uint32_t timeout_ms);

/* One writer and one reader for each channel; both name the same number of bytes. */
int gbx_send(gbx_collective* self, uint32_t channel, const void* data, uint64_t bytes, uint32_t timeout_ms);
int gbx_receive(gbx_collective* self, uint32_t channel, void* data, uint64_t bytes, uint32_t timeout_ms);

/* Ends the epoch: all who wait in the region, and all who will, return GBX_ABORTED. */
void gbx_abort(gbx_collective* self);

#ifdef __cplusplus
}
#endif
#endif
