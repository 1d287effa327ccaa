/*
 * vista.h: recoverable memory, the interface of Rio Vista (SOSP 1997), section 4.
 *
 * A segment is a file, mapped at the same address in every program that maps it, so what lies in it may point to what lies
 * in it. What a transaction stores stands when vista_end_transaction returns, whatever becomes of the process; what one has
 * stored that did not end is taken back: by vista_abort_transaction, or by the next vista_map.
 *
 * A segment is used by one thread at a time, and mapped by one process. A `vista *` is a handle: a call with NULL, with a segment that was
 * unmapped before, with any other word, or while another thread is in a call with the segment fails and says so. In a child that fork or clone makes of that, every call
 * on a transaction, vista_malloc and vista_free fail and say so: what the parent has in the segment is kept, and the parent goes on.
 * The child may read what the parent shows, gives its copy up by vista_unmap, which changes nothing, and can map the segment again
 * when the parent has it no more. Where another thread of the parent was in a call with the segment when the child was made,
 * every call of the child with it, vista_unmap too, fails as beside such a call, and the copy goes with the child.
 * A store to what the parent has declared is the parent's, too: nobody can stop that. Calls that can fail return -1 or NULL
 * and change nothing, unless it is said otherwise; vista_error then says what was wrong.
 */
#ifndef VISTA_H
#define VISTA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vista vista;

/* Has to be called by nobody: it is here because the paper has it. Returns 0. */
int vista_init(void);

/* Maps the segment in the file at path, made if it is not there, whose flat part has so many bytes, zeros at first;
 * 0 takes one that is there as it is. Takes back what was unfinished. */
vista *vista_map(const char *path, size_t bytes);

/* As vista_map, and a store to what no transaction has declared ends the process, after a line on standard error that names
 * the segment. Costs microseconds a range, or nanoseconds where the processor has protection keys: then only the thread that
 * maps the segment, and those it starts later, may load from it. */
vista *vista_map_guarded(const char *path, size_t bytes);

/* Aborts the transaction, if one goes on, and ends the use of the segment: it is safe on its disk, if it has one. If this fails
 * it may not be safe there; the segment is unmapped in either case. Every call with a segment that was unmapped before fails. */
int vista_unmap(vista *segment);

/* The flat part: where it begins, and its length in bytes. Of what is no segment NULL and 0. */
void *vista_address(const vista *segment);
size_t vista_bytes(const vista *segment);

/* Begins a transaction. There is one at a time. */
int vista_begin_transaction(vista *segment);

/* Declares that the transaction may change bytes bytes from place on, of the flat part or of what was allocated. What is
 * stored elsewhere is neither taken back nor noticed; on memory whose cache is lost with the power, such a store to what the last
 * transaction has just changed may cost that transaction. */
int vista_set_range(vista *segment, void *place, size_t bytes);

/* Ends the transaction: what it stored stands. If this fails the transaction is aborted. */
int vista_end_transaction(vista *segment);

/* Takes everything back. */
int vista_abort_transaction(vista *segment);

/* Allocates in the transaction; an abort gives it back. A multiple of 16; what is there is not cleared. To store to it needs
 * vista_set_range like anything else. */
void *vista_malloc(vista *segment, size_t bytes);

/* Frees in the transaction; an abort has it back, so it is used again when the transaction has ended. A disk without room refuses
 * vista_malloc, and neither vista_free nor the end of a transaction that has freed. */
int vista_free(vista *segment, void *place);

/* What was wrong with this thread's last call that failed: a sentence, which stands until its next call. */
const char *vista_error(void);

#ifdef __cplusplus
}
#endif
#endif
