/*
 * vista.h: recoverable memory, the interface of Rio Vista (SOSP 1997), section 4.
 *
 * A segment is a file that every program maps at the same address, so memory in it may hold pointers into it. When
 * vista_end_transaction returns, the stores of the transaction are permanent, whatever becomes of the process. The stores of
 * a transaction that did not end are undone: by vista_abort_transaction, or by the next vista_map.
 *
 * Return values. Calls that can fail return -1 or NULL and change nothing, unless their description says otherwise. vista_error
 * then returns the reason.
 *
 * Handles. One process maps a segment, and one thread at a time uses it. A `vista *` is a handle. A call fails if the handle
 * is NULL or invalid, if the segment was unmapped, or while another thread is in a call with the segment.
 *
 * Fork. The child of a fork or clone has a copy of the segment, which still belongs to the parent. In the child every call on
 * transactions, vista_malloc and vista_free fail; the parent goes on undisturbed. The child may read the memory. vista_unmap
 * gives the copy up and changes nothing in the parent. The child can map the segment again when the parent has unmapped it. If
 * another thread of the parent was in a call with the segment when the child was made, every call of the child with the
 * segment fails, even vista_unmap, and the copy ends with the child. The library cannot stop a child from storing to a range
 * that the parent has declared: such a store changes the parent's memory.
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

/* Does nothing and returns 0. No program has to call it: it is here because the paper has it. */
int vista_init(void);

/*
 * Maps the segment in the file at path, and creates the file if it is missing. The flat part has `bytes` bytes, zeros
 * at first; with 0 bytes the call maps an existing segment, whatever its size. It undoes an unfinished transaction.
 * Returns the handle, or NULL.
 */
vista *vista_map(const char *path, size_t bytes);

/*
 * Maps a segment as vista_map does. A store to memory that no transaction has declared then ends the process, after a
 * line on standard error that names the segment. This costs microseconds for each declared range, or nanoseconds where
 * the processor has protection keys: then only the thread that maps the segment, and the threads that it starts later,
 * may load from it.
 */
vista *vista_map_guarded(const char *path, size_t bytes);

/*
 * Aborts the running transaction, if there is one, and unmaps the segment. If it succeeds, the segment is safe on its
 * disk, if it has one; if it fails, the segment may not be safe there. Either way the segment is unmapped, and every
 * later call with it fails, even a second vista_unmap.
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
 * Declares that the transaction may change the `bytes` bytes at place, in the flat part or in allocated memory. A store
 * to undeclared memory is neither undone nor noticed. On memory whose cache is lost with the power, such a store to
 * bytes that the last transaction has just changed may cost that transaction.
 */
int vista_set_range(vista *segment, void *place, size_t bytes);

/* Ends the transaction: its stores are permanent. If this call fails, the transaction is aborted. */
int vista_end_transaction(vista *segment);

/* Undoes all stores, allocations and frees of the transaction, and ends it. */
int vista_abort_transaction(vista *segment);

/*
 * Allocates `bytes` bytes, rounded up to a multiple of 16, in the transaction, and returns their address, or NULL. An
 * abort frees them. The bytes are not cleared. Declare them with vista_set_range before a store.
 */
void *vista_malloc(vista *segment, size_t bytes);

/*
 * Frees an allocation in the transaction; an abort undoes that. The memory is used again only after the transaction has
 * ended. On a full disk vista_malloc fails, but vista_free, and the end of a transaction that has freed, do not.
 */
int vista_free(vista *segment, void *place);

/*
 * Returns a sentence about this thread's last call that failed. It names the segment or the value, the state that was kept,
 * and the remedy. The text stays until the thread's next call that fails.
 */
const char *vista_error(void);

#ifdef __cplusplus
}
#endif
#endif
