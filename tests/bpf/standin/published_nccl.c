/* SPDX-License-Identifier: Apache-2.0 */
/* published_nccl LIBRARY: makes one unique id and one communicator with a published libnccl, and prints the id in
 * hexadecimal and the return code. Waits for a line on standard input between loading and calling. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char internal[128];
} ncclUniqueId;

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) {
    fprintf(stderr, "published_nccl: %s\n", dlerror());
    return 1;
  }
  int (*get_unique_id)(ncclUniqueId*) = NULL;
  int (*init_rank)(void**, int, ncclUniqueId, int) = NULL;
  void* symbol = dlsym(library, "ncclGetUniqueId");
  memcpy(&get_unique_id, &symbol, sizeof symbol);
  symbol = dlsym(library, "ncclCommInitRank");
  memcpy(&init_rank, &symbol, sizeof symbol);
  printf("0\n");
  fflush(stdout);
  if (getchar() == EOF) {
    return 1;
  }
  ncclUniqueId id;
  const int got = get_unique_id(&id);
  if (got != 0) {
    fprintf(stderr, "published_nccl: ncclGetUniqueId returned %d\n", got);
    return 1;
  }
  for (size_t i = 0; i < sizeof id.internal; i++) {
    printf("%02x", (unsigned char)id.internal[i]);
  }
  printf("\n");
  fflush(stdout);
  void* comm = NULL;
  printf("%d\n", init_rank(&comm, 1, id, 0));
  fflush(stdout);
  return 0;
}
