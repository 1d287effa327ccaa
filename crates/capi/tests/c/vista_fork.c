/* A child that a process makes with fork, or with the system call clone, in the middle of a transaction on a segment.
 *
 *   vista_fork FILE
 */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "vista.h"

static int is_refused(int answer)
{
    return answer == -1 && strstr(vista_error(), "cannot use the inherited handle") != NULL;
}

/* Runs in the child, where all these calls must fail. Returns the number of the first step with another result, or 0. */
static int use_all(vista *segment, char *bytes, void *block)
{
    if (!is_refused(vista_begin_transaction(segment)))
        return 1;
    if (!is_refused(vista_set_range(segment, bytes, 8)) || !is_refused(vista_set_range(segment, bytes + 64, 8)))
        return 2;
    if (!is_refused(vista_malloc(segment, 100) == NULL ? -1 : 0))
        return 3;
    if (!is_refused(vista_free(segment, block)))
        return 4;
    if (!is_refused(vista_end_transaction(segment)))
        return 5;
    if (!is_refused(vista_abort_transaction(segment)))
        return 6;
    /* The child may read the segment and unmap it. */
    if (bytes[0] != 1 || vista_bytes(segment) != 4096 || vista_unmap(segment) != 0)
        return 7;
    return 0;
}

int main(int argc, char **argv)
{
    int way;
    vista *segment = argc == 2 ? vista_map(argv[1], 4096) : NULL;
    if (segment == NULL)
        return 2;
    char *bytes = vista_address(segment);
    for (way = 0; way < 4; way++) {
        int status = 0;
        if (vista_begin_transaction(segment) != 0 || vista_set_range(segment, bytes, 8) != 0)
            return 1;
        bytes[0] = 1;
        void *block = vista_malloc(segment, 100);
        /* Otherwise the child would inherit the buffered output. */
        fflush(stdout);
        pid_t child = way % 2 == 0 ? fork() : (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
        if (child == 0)
            _exit(use_all(segment, bytes, block));
        waitpid(child, &status, 0);
        printf("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        if (vista_set_range(segment, bytes + 8, 8) != 0)
            return 1;
        bytes[8] = 1;
        /* Two rounds abort the transaction, which needs all before-images; two rounds end it. */
        if ((way < 2 ? vista_abort_transaction(segment) : vista_end_transaction(segment)) != 0)
            return 1;
        printf("the parent has %d and %d\n", bytes[0], bytes[8]);
    }
    return vista_unmap(segment) != 0;
}
