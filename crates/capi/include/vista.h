/*
 * vista.h: recoverable memory, the interface of Rio Vista (SOSP 1997), section 4.
 *
 * A segment is a file that every program maps at the same address, so the segment's memory may contain pointers into
 * the segment. When vista_end_transaction returns, the stores of the transaction are permanent, even if the process
 * dies. If a transaction is not ended, vista_abort_transaction or the next vista_map of the segment undoes its stores.
 *
 * Return values. If a call fails, it returns -1 or NULL and changes nothing, unless its description says otherwise.
 * vista_error then returns the reason.
 *
 * Handles. Only one process at a time maps a segment, and only one thread at a time uses it. A `vista *` is a handle. A
 * call fails if the handle is NULL or invalid, if the segment was unmapped, or while another thread is in a call with
 * the segment.
 *
 * Fork. After a fork or clone, the child has a copy of the parent's handle. The segment still belongs to the parent. In
 * the child, vista_malloc, vista_free and every call on transactions fail, and do not disturb the parent. The child may
 * read the memory. vista_unmap in the child unmaps the memory only there. The child can map the segment again after the
 * parent has unmapped it. If another thread of the parent was in a call with the segment at the time of the fork, every
 * call of the child with the segment fails, even vista_unmap, and the memory stays mapped until the child ends. The
 * library cannot stop a child from storing to a range that the parent has declared: such a store changes the parent's
 * memory.
 */
#ifndef VISTA_H
#define VISTA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vista vista;

/* -- recoverable memory
 *
 *     vista *segment = vista_map("list", 4096);
 *     long *count = vista_address(segment);
 *     vista_begin_transaction(segment);
 *     vista_set_range(segment, count, sizeof *count);
 *     *count += 1;
 *     vista_end_transaction(segment);
 */

/* Does nothing and returns 0. No program has to call it: this header has it because the paper has it. */
int vista_init(void);

/*
 * Maps the segment in the file at path, and creates the file if it is missing. The flat part is the segment's memory
 * without its heap (vista_malloc). In a new segment it has `bytes` bytes, which are zeros. If `bytes` is 0, the call
 * maps an existing segment, whatever its size. It undoes the transaction that an earlier process has not ended. Returns
 * the handle, or NULL.
 */
vista *vista_map(const char *path, size_t bytes);

/*
 * Maps a segment as vista_map does, and guards it: a store to memory that no transaction has declared ends the process,
 * after a line on standard error that names the segment. The guard costs microseconds for each declared range, or
 * nanoseconds if the processor has protection keys. With protection keys, only the thread that maps the segment, and
 * the threads that it starts later, may read the memory.
 */
vista *vista_map_guarded(const char *path, size_t bytes);

/*
 * Aborts the running transaction, if there is one, and unmaps the segment. If the call succeeds and the file is on a
 * disk, the segment is safe on the disk; if the call fails, it may not be. In both cases the segment is unmapped, and
 * every later call with the handle fails, even a second vista_unmap.
 */
int vista_unmap(vista *segment);

/*
 * vista_address returns the address of the flat part, and vista_bytes its length in bytes. For an invalid handle they
 * return NULL and 0.
 */
void *vista_address(const vista *segment);
size_t vista_bytes(const vista *segment);

/* Begins a transaction. A segment has one transaction at a time. */
int vista_begin_transaction(vista *segment);

/*
 * Declares that the transaction may change the `bytes` bytes at place, in the flat part or in allocated memory. The
 * library neither undoes nor notices a store to undeclared memory, unless the segment is guarded. If the memory
 * survives a loss of power but the processor's cache does not, an undeclared store is a risk for the last transaction:
 * if it changes bytes of that transaction and the power then fails, recovery may undo the transaction.
 */
int vista_set_range(vista *segment, void *place, size_t bytes);

/* Ends the transaction: its stores are then permanent. If this call fails, the transaction was aborted. */
int vista_end_transaction(vista *segment);

/* Undoes all stores, allocations and frees of the transaction, and ends it. */
int vista_abort_transaction(vista *segment);

/*
 * Allocates `bytes` bytes, rounded up to a multiple of 16, in the transaction, and returns their address, or NULL. An
 * abort frees them. The bytes are not cleared. Declare them with vista_set_range before you store to them.
 */
void *vista_malloc(vista *segment, size_t bytes);

/*
 * Frees an allocation in the transaction; an abort undoes the free. The memory is allocated again only after the
 * transaction has ended. On a full disk vista_malloc fails, but vista_free does not fail, and a transaction with a
 * vista_free can end.
 */
int vista_free(vista *segment, void *place);

/*
 * Returns a text about this thread's last call that failed. It names the segment or the value, says which data is kept,
 * and advises what to do. The text stays until the thread's next call that fails.
 */
const char *vista_error(void);

#ifdef __cplusplus
}
#endif
#endif
