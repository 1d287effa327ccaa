/*
 * Does the background work of an environment by hand, and prints its databases, the report of its opening, and its
 * statistics.
 *
 *   look DIRECTORY          creates the environment if it is missing
 *   look -n DIRECTORY       does not create it
 */
#include <stdio.h>
#include <string.h>

#include "libtp.h"

static int failed(const char *what, int code)
{
    fprintf(stderr, "%s: %s (%s)%s\n", what, tp_error(), tp_strerror(code), tp_is_retryable(code) ? ", run it again" : "");
    return 1;
}

static void show_names(const tp_buffer *names)
{
    const char *name = names->data, *end = name + names->size;
    for (; name < end; name += strlen(name) + 1)
        printf("database %s\n", name);
}

int main(int argc, char **argv)
{
    tp_env *env;
    tp_db *db;
    tp_buffer text = TP_BUFFER;
    int code;
    unsigned int flags = argc == 3 && strcmp(argv[1], "-n") == 0 ? TP_NO_CREATE : 0;
    if (argc != (flags ? 3 : 2))
        return 2;
    printf("libtp.h %s, the library %s\n", TP_VERSION, tp_version());
    const char *settings = "no_background = true\n"
                           "memory = \"16MiB\"\n"
                           "lock_timeout_millis = 500\n"
                           "[database.pages]\n"
                           "granularity = \"page\"\n";
    if ((code = tp_env_open(argv[argc - 1], settings, flags, &env)) != TP_OK)
        return failed("open", code);
    if ((code = tp_btree_open(env, "pages", &db)) != TP_OK || (code = tp_db_close(db)) != TP_OK)
        return failed("pages", code);
    if ((code = tp_env_background_step(env)) != TP_OK || (code = tp_env_flush(env)) != TP_OK ||
        (code = tp_env_checkpoint(env)) != TP_OK)
        return failed("by hand", code);
    if ((code = tp_env_databases(env, &text)) != TP_OK)
        return failed("databases", code);
    show_names(&text);
    if ((code = tp_env_opened(env, &text)) != TP_OK)
        return failed("opened", code);
    printf("opened %s\n", (const char *)text.data);
    if ((code = tp_env_stat(env, &text)) != TP_OK)
        return failed("stat", code);
    printf("stat %s\n", (const char *)text.data);
    tp_buffer_free(&text);
    return (code = tp_env_close(env)) == TP_OK ? 0 : failed("close", code);
}
