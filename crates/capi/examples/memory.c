/*
 * Memory in a transaction: a linked list in a segment and records in a database, which commit together or not at all.
 *
 *   memory DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

struct node {
    struct node *next;
    long value;
};

/* The layout of the flat part: the segment's memory without its heap. */
struct root {
    struct node *first;
    long count;
};

struct scene {
    tp_env *env;
    tp_db *names;
    tp_segment *segment;
};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error());
    return 1;
}

/* Adds a node in memory, and a record with the node's number. */
static int push(struct scene *scene, tp_txn *txn, const char *name)
{
    void *memory, *place;
    int code = tp_segment_join(scene->segment, txn, &memory, NULL);
    if (code == TP_OK)
        code = tp_segment_malloc(scene->segment, txn, sizeof(struct node), &place);
    if (code == TP_OK)
        code = tp_segment_set_range(scene->segment, txn, place, sizeof(struct node));
    if (code == TP_OK)
        code = tp_segment_set_range(scene->segment, txn, memory, sizeof(struct root));
    if (code != TP_OK)
        return code;
    struct root *root = memory;
    struct node *node = place;
    node->next = root->first;
    node->value = ++root->count;
    root->first = node;
    return tp_put(scene->names, txn, &node->value, sizeof node->value, name, strlen(name));
}

static int pop(struct scene *scene, tp_txn *txn)
{
    void *memory;
    int code = tp_segment_join(scene->segment, txn, &memory, NULL);
    struct root *root = memory;
    if (code != TP_OK || root->first == NULL || (code = tp_segment_set_range(scene->segment, txn, root, sizeof *root)) != TP_OK)
        return code;
    struct node *node = root->first;
    root->first = node->next;
    root->count -= 1;
    code = tp_delete(scene->names, txn, &node->value, sizeof node->value);
    return code == TP_OK ? tp_segment_free(scene->segment, txn, node) : code;
}

static int show(struct scene *scene)
{
    tp_txn *txn;
    tp_buffer name = TP_BUFFER;
    void *memory;
    size_t size;
    int code = tp_begin(scene->env, TP_DEFAULT, &txn);
    if (code != TP_OK || (code = tp_segment_join(scene->segment, txn, &memory, &size)) != TP_OK)
        return code;
    const struct root *root = memory;
    printf("%ld in %lu bytes:", root->count, (unsigned long)size);
    for (const struct node *node = root->first; node != NULL && code == TP_OK; node = node->next)
        if ((code = tp_get(scene->names, txn, &node->value, sizeof node->value, &name)) == TP_OK)
            printf(" %ld %s", node->value, (const char *)name.data);
    printf("\n");
    tp_buffer_free(&name);
    tp_abort(txn);
    return code;
}

static int work(struct scene *scene)
{
    static const char *const names[] = {"ada", "alan", "kurt"};
    tp_txn *txn;
    for (int nth = 0; nth < 3; nth++)
        if (tp_begin(scene->env, TP_DEFAULT, &txn) != TP_OK || push(scene, txn, names[nth]) != TP_OK || tp_commit(txn) != TP_OK)
            return failed("push");
    if (show(scene) != TP_OK)
        return failed("show");
    /* An abort undoes memory and record together. */
    if (tp_begin(scene->env, TP_DEFAULT, &txn) != TP_OK || push(scene, txn, "guest") != TP_OK || tp_abort(txn) != TP_OK || show(scene) != TP_OK)
        return failed("abort");
    if (tp_begin(scene->env, TP_DEFAULT, &txn) != TP_OK || pop(scene, txn) != TP_OK || tp_commit(txn) != TP_OK || show(scene) != TP_OK)
        return failed("pop");
    return 0;
}

int main(int argc, char **argv)
{
    struct scene scene;
    tp_segment *elsewhere;
    char path[4096];
    unsigned int survives;
    if (argc != 2)
        return 2;
    snprintf(path, sizeof path, "%s/elsewhere.vista", argv[1]);
    if (tp_env_open(argv[1], NULL, 0, &scene.env) != TP_OK || tp_btree_open(scene.env, "names", &scene.names) != TP_OK ||
        tp_segment_open(scene.env, "list", sizeof(struct root), &scene.segment) != TP_OK)
        return failed("open");
    int status = work(&scene);
    if (tp_segment_open_at(scene.env, path, 4096, TP_ANYWHERE | TP_SURVIVES_SYSTEM, &elsewhere) != TP_OK ||
        tp_segment_survives(elsewhere, &survives) != TP_OK || tp_segment_close(elsewhere) != TP_OK)
        return failed("elsewhere");
    printf("elsewhere: %s\n", survives == TP_SURVIVES_SYSTEM ? "survives a crash of the system, as declared" : "survives another failure");
    if (tp_segment_close(scene.segment) != TP_OK || tp_db_close(scene.names) != TP_OK || tp_env_close(scene.env) != TP_OK)
        return failed("close");
    return status;
}
