/*
 * Runs programs one after the other in one process. The test makes programs.h, with PROGRAM(name) for each program.
 *
 * usage: together NAME ARGUMENT... [-- NAME ARGUMENT...]...
 */
#include <stdio.h>
#include <string.h>

#define PROGRAM(name) int main_of_##name(int argc, char **argv);
#include "programs.h"
#undef PROGRAM
#define PROGRAM(name) {#name, main_of_##name},

static const struct program {
    const char *name;
    int (*run)(int argc, char **argv);
} programs[] = {
#include "programs.h"
};

static int run(int argc, char **argv)
{
    size_t at;
    for (at = 0; at < sizeof programs / sizeof *programs; at++)
        if (strcmp(argv[0], programs[at].name) == 0)
            return programs[at].run(argc, argv);
    return 2;
}

int main(int argc, char **argv)
{
    int from, to, code = 0;
    for (from = 1; from < argc && code == 0; from = to + 1) {
        for (to = from; to < argc && strcmp(argv[to], "--") != 0; to++)
            ;
        argv[to] = NULL;
        code = run(to - from, argv + from);
        puts("---- next program");
    }
    return code;
}
