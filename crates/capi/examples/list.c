/*
 * A linked list that outlives the program.
 *
 *   list FILE add N     adds N nodes, each in its own transaction
 *   list FILE die N     like add, but the process ends in the middle of the last transaction
 *   list FILE undo      adds a node and aborts
 *   list FILE drop      frees the first node
 *   list FILE show      prints the number of nodes and their sum
 *   list FILE wild      with a guarded segment: adds a node, then stores to undeclared memory, so that the guard ends the process
 *   list FILE wrong     makes wrong calls, each of which must fail with a reason
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vista.h"

struct node {
    struct node *next;
    long value;
};

/* The layout of the flat part: the segment's memory without its heap. */
struct root {
    struct node *first;
    long count;
};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, vista_error());
    return 1;
}

static int push(vista *segment, struct root *root)
{
    struct node *node = vista_malloc(segment, sizeof *node);
    if (node == NULL || vista_set_range(segment, node, sizeof *node) != 0 ||
        vista_set_range(segment, root, sizeof *root) != 0)
        return -1;
    node->next = root->first;
    node->value = root->count + 1;
    root->first = node;
    root->count += 1;
    return 0;
}

static int pop(vista *segment, struct root *root)
{
    struct node *node = root->first;
    if (node == NULL || vista_set_range(segment, root, sizeof *root) != 0 || vista_free(segment, node) != 0)
        return -1;
    root->first = node->next;
    root->count -= 1;
    return 0;
}

static int add(vista *segment, struct root *root, long count, int dies)
{
    for (long nth = 0; nth < count; nth++) {
        if (vista_begin_transaction(segment) != 0 || push(segment, root) != 0)
            return failed("add");
        if (dies && nth == count - 1)
            _exit(9);
        if (vista_end_transaction(segment) != 0)
            return failed("add");
    }
    return 0;
}

static void show(const struct root *root)
{
    long count = 0, sum = 0;
    for (const struct node *node = root->first; node != NULL; node = node->next) {
        count += 1;
        sum += node->value;
    }
    printf("%ld of %ld, sum %ld\n", count, root->count, sum);
}

/* Makes wrong calls and prints the reason why each fails. Returns 1 if a wrong call succeeds. */
static int wrong(vista *segment, struct root *root)
{
    int refused = 0, other;
    refused += vista_set_range(segment, root, 8) != 0;
    puts(vista_error());
    refused += vista_end_transaction(segment) != 0;
    puts(vista_error());
    if (vista_begin_transaction(segment) != 0)
        return failed("begin");
    refused += vista_begin_transaction(segment) != 0;
    puts(vista_error());
    refused += vista_set_range(segment, &other, sizeof other) != 0;
    puts(vista_error());
    refused += vista_set_range(segment, root, vista_bytes(segment) + 1) != 0;
    puts(vista_error());
    refused += vista_free(segment, &other) != 0;
    puts(vista_error());
    refused += vista_begin_transaction(NULL) != 0;
    puts(vista_error());
    refused += vista_begin_transaction((vista *)&other) != 0;
    puts(vista_error());
    if (vista_abort_transaction(segment) != 0)
        return failed("abort");
    return refused == 8 ? 0 : 1;
}

/* Checks that every call with an unmapped segment fails. */
static int gone(vista *segment, void *place)
{
    int refused = 0;
    refused += vista_unmap(segment) != 0;
    puts(vista_error());
    refused += vista_address(segment) == NULL;
    refused += vista_bytes(segment) == 0;
    refused += vista_begin_transaction(segment) != 0;
    refused += vista_set_range(segment, place, 8) != 0;
    refused += vista_malloc(segment, 8) == NULL;
    refused += vista_free(segment, place) != 0;
    refused += vista_end_transaction(segment) != 0;
    refused += vista_abort_transaction(segment) != 0;
    return refused == 9 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    vista_init();
    const char *what = argv[2];
    int is_wild = strcmp(what, "wild") == 0;
    vista *segment = is_wild ? vista_map_guarded(argv[1], 4096) : vista_map(argv[1], 4096);
    if (segment == NULL)
        return failed("map");
    struct root *root = vista_address(segment);
    int status = 0;
    if (strcmp(what, "add") == 0 || strcmp(what, "die") == 0) {
        status = add(segment, root, argc > 3 ? atol(argv[3]) : 1, what[0] == 'd');
    } else if (is_wild) {
        status = add(segment, root, 1, 0);
        show(root);
        fflush(stdout);
        *(volatile long *)&root->count = 1000;
    } else if (strcmp(what, "undo") == 0) {
        if (vista_begin_transaction(segment) != 0 || push(segment, root) != 0 || vista_abort_transaction(segment) != 0)
            status = failed("undo");
    } else if (strcmp(what, "drop") == 0) {
        if (vista_begin_transaction(segment) != 0 || pop(segment, root) != 0 || vista_end_transaction(segment) != 0)
            status = failed("drop");
    } else if (strcmp(what, "wrong") == 0) {
        status = wrong(segment, root);
    }
    show(root);
    if (vista_unmap(segment) != 0)
        return failed("unmap");
    return status == 0 && strcmp(what, "wrong") == 0 ? gone(segment, root) : status;
}
