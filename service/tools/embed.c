/* embed: writes files as a C table at build (see include/embedded.h).
 *
 *   embed GROUP FILE... > embedded_GROUP.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static int by_base_name(const void *left, const void *right) {
  return strcmp(base_name(*(char *const *)left), base_name(*(char *const *)right));
}

/* One byte inside a string literal. Octal always with three digits, so that a digit may follow; "?" could begin a trigraph. */
static void put_byte(int byte) {
  if (byte == '\n')
    fputs("\\n\"\n    \"", stdout);
  else if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\' || byte == '?')
    printf("\\%03o", (unsigned)byte);
  else
    putchar(byte);
}

/* FNV-1a, 64 bit (http://www.isthe.com/chongo/tech/comp/fnv/). */
#define FNV_OFFSET 14695981039346656037U
#define FNV_PRIME 1099511628211U

/* The file as the string literal bytes_INDEX. Returns its length or -1. */
static long put_file(const char *path, int index, unsigned long long *fingerprint) {
  FILE *file = fopen(path, "rb");
  if (!file) return -1;
  long length = 0;
  int byte;
  *fingerprint = FNV_OFFSET;
  printf("static const char bytes_%d[] = /* %s */\n    \"", index, path);
  for (; (byte = getc(file)) != EOF; length++) {
    put_byte(byte);
    *fingerprint = (*fingerprint ^ (unsigned)byte) * FNV_PRIME;
  }
  fputs("\";\n\n", stdout);
  int failed = ferror(file);
  fclose(file);
  return failed ? -1 : length;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fputs("usage: embed GROUP FILE...\n", stderr);
    return 2;
  }
  int count = argc - 2;
  char **paths = argv + 2;
  struct {
    long length;
    unsigned long long fingerprint;
  } *known = calloc((size_t)count + 1, sizeof *known);
  if (!known) {
    perror("embed");
    return 1;
  }
  qsort(paths, (size_t)count, sizeof *paths, by_base_name);
  printf("/* Made by service/tools/embed.c. */\n#include \"embedded.h\"\n\n");
  for (int i = 0; i < count; i++) {
    known[i].length = put_file(paths[i], i, &known[i].fingerprint);
    if (known[i].length < 0) {
      perror(paths[i]);
      free(known);
      return 1;
    }
  }
  printf("const struct embedded_file embedded_%s[] = {\n", argv[1]);
  for (int i = 0; i < count; i++)
    printf("    {\"%s\", bytes_%d, %ldu, 0x%llxu},\n", base_name(paths[i]), i, known[i].length, known[i].fingerprint);
  printf("    {0, 0, 0u, 0u}, /* not counted: C has no empty arrays */\n};\nconst size_t embedded_%s_count = %du;\n", argv[1],
         count);
  free(known);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror("embed");
    return 1;
  }
  return 0;
}
