/* Threads whose transactions deadlock; a thread whose calls with a transaction fail, because another thread is in a
 * call with the same transaction; and a thread that gives its transaction's handle to another thread. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libtp.h"

enum { THREADS = 4, ROUNDS = 200 };

struct scene {
    tp_env *env;
    tp_db *db;
    tp_txn *txn;
    pthread_barrier_t barrier;
    int refused;
    int nth;
};

static int failed(const char *what)
{
    printf("%s: %s\n", what, tp_error());
    return 1;
}

static int add(struct scene *scene, tp_txn *txn, const char *key)
{
    tp_buffer value = TP_BUFFER;
    char text[24];
    long count = 0;
    int code = tp_get(scene->db, txn, key, 1, &value);
    if (code == TP_OK)
        sscanf(value.data, "%ld", &count);
    tp_buffer_free(&value);
    if (code != TP_OK && code != TP_NOTFOUND)
        return code;
    snprintf(text, sizeof text, "%ld", count + 1);
    return tp_put(scene->db, txn, key, 1, text, strlen(text));
}

/* Reads and then writes two keys. Threads with an even number do this in the opposite order, which causes deadlocks. */
static int both(tp_txn *txn, void *argument)
{
    struct scene *scene = argument;
    int code = add(scene, txn, scene->nth % 2 ? "a" : "b");
    return code == TP_OK ? add(scene, txn, scene->nth % 2 ? "b" : "a") : code;
}

static void *circles(void *argument)
{
    struct scene *scene = argument;
    for (int round = 0; round < ROUNDS; round++)
        if (tp_run(scene->env, TP_RELAXED, both, scene) != TP_OK) {
            failed("run");
            return argument;
        }
    return NULL;
}

static int run_circles(struct scene *scene)
{
    pthread_t threads[THREADS];
    struct scene scenes[THREADS];
    tp_txn *snapshot;
    tp_buffer value = TP_BUFFER;
    void *ended;
    int bad = 0;
    for (int nth = 0; nth < THREADS; nth++) {
        scenes[nth] = *scene;
        scenes[nth].nth = nth;
        pthread_create(&threads[nth], NULL, circles, &scenes[nth]);
    }
    for (int nth = 0; nth < THREADS; nth++) {
        pthread_join(threads[nth], &ended);
        bad |= ended != NULL;
    }
    if (bad || tp_snapshot(scene->env, &snapshot) != TP_OK || tp_get(scene->db, snapshot, "a", 1, &value) != TP_OK)
        return failed("circles");
    printf("counted %s of %d\n", (const char *)value.data, THREADS * ROUNDS);
    tp_buffer_free(&value);
    return tp_abort(snapshot) != TP_OK;
}

/* Stays inside a call with the transaction while the other thread makes its calls. */
static void waits(void *value, size_t size, void *argument)
{
    struct scene *scene = argument;
    (void)value;
    (void)size;
    pthread_barrier_wait(&scene->barrier);
    pthread_barrier_wait(&scene->barrier);
}

static void *intrudes(void *argument)
{
    struct scene *scene = argument;
    pthread_barrier_wait(&scene->barrier);
    scene->refused += tp_get(scene->db, scene->txn, "a", 1, NULL) == TP_MISUSE;
    scene->refused += strstr(tp_error(), "another call of this program uses a transaction") != NULL;
    scene->refused += tp_commit(scene->txn) == TP_MISUSE;
    scene->refused += tp_abort(scene->txn) == TP_MISUSE;
    scene->refused += tp_db_close(scene->db) == TP_IN_USE;
    scene->refused += tp_env_close(scene->env) == TP_IN_USE;
    pthread_barrier_wait(&scene->barrier);
    return NULL;
}

static int run_intruder(struct scene *scene)
{
    pthread_t thread;
    pthread_barrier_init(&scene->barrier, NULL, 2);
    /* This error text must stay, because each thread has its own error text. */
    if (tp_begin(scene->env, TP_DEFAULT, &scene->txn) != TP_OK || tp_get(scene->db, scene->txn, "none", 4, NULL) != TP_NOTFOUND)
        return failed("begin");
    pthread_create(&thread, NULL, intrudes, scene);
    if (tp_update(scene->db, scene->txn, "a", 1, waits, scene) != TP_OK)
        return failed("update");
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&scene->barrier);
    printf("%d of 6 refused, here: %s\n", scene->refused, tp_error());
    return 0;
}

static void *commits(void *argument)
{
    struct scene *scene = argument;
    if (tp_put(scene->db, scene->txn, "handed", 6, "on", 2) != TP_OK || tp_commit(scene->txn) != TP_OK)
        failed("in the other thread");
    return NULL;
}

static int run_handed_on(struct scene *scene)
{
    pthread_t thread;
    tp_buffer value = TP_BUFFER;
    pthread_create(&thread, NULL, commits, scene);
    pthread_join(thread, NULL);
    if (tp_begin(scene->env, TP_DEFAULT, &scene->txn) != TP_OK || tp_get(scene->db, scene->txn, "handed", 6, &value) != TP_OK)
        return failed("handed on");
    printf("handed %s\n", (const char *)value.data);
    tp_buffer_free(&value);
    return tp_abort(scene->txn) != TP_OK;
}

int main(int argc, char **argv)
{
    struct scene scene;
    memset(&scene, 0, sizeof scene);
    if (argc != 2)
        return 2;
    if (tp_env_open(argv[1], NULL, 0, &scene.env) != TP_OK || tp_btree_open(scene.env, "words", &scene.db) != TP_OK)
        return failed("open");
    int status = run_circles(&scene) || run_intruder(&scene) || run_handed_on(&scene);
    if (tp_db_close(scene.db) != TP_OK || tp_env_close(scene.env) != TP_OK)
        return failed("close");
    return status;
}
