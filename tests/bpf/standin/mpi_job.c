/* SPDX-License-Identifier: Apache-2.0 */
/* One call of each kind of MPI call, each with its own size. Prints its pid and rank first. Where calls are polled,
 * rank 1 is late, so that rank 0's first polls find nothing. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#define RANKS 2
#define LATE_US 30000

static int send[4096], receive[4096];

static void begin(int rank, int count, MPI_Request* request) {
  if (rank == 1) {
    usleep(LATE_US);
  }
  MPI_Iallreduce(send, receive, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
}

/* Asynchronous calls that end in every way but MPI_Wait, MPI_Waitall and MPI_Waitany. */
static void polled(int rank) {
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int indices[3];
  int index = 0;
  int number = 0;
  int done = 0;
  begin(rank, 120, &requests[0]);
  while (!done) {
    MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
  }
  MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE); /* once more, for a request that is done */
  begin(rank, 121, &requests[0]);
  begin(rank, 122, &requests[2]);
  for (done = 0; !done;) {
    MPI_Testall(3, requests, &done, MPI_STATUSES_IGNORE);
  }
  begin(rank, 123, &requests[1]);
  begin(rank, 124, &requests[2]);
  do {
    MPI_Testany(3, requests, &index, &done, MPI_STATUS_IGNORE);
  } while (!done || index != MPI_UNDEFINED);
  begin(rank, 125, &requests[1]);
  begin(rank, 126, &requests[2]);
  do {
    MPI_Testsome(3, requests, &number, indices, MPI_STATUSES_IGNORE);
  } while (number != MPI_UNDEFINED);
  begin(rank, 127, &requests[0]);
  begin(rank, 128, &requests[2]);
  do {
    MPI_Waitsome(3, requests, &number, indices, MPI_STATUSES_IGNORE);
  } while (number != MPI_UNDEFINED);
}

int main(int argc, char** argv) {
  int rank = 0;
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("%d %d\n", (int)getpid(), rank);
  fflush(stdout);
  if (size != RANKS) {
    return 2;
  }
  const int other = 1 - rank;

  MPI_Allreduce(send, receive, 101, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(send, receive, 102, MPI_FLOAT, MPI_SUM, 1, MPI_COMM_WORLD);
  MPI_Bcast(send, 103, MPI_CHAR, 1, MPI_COMM_WORLD);
  MPI_Allgather(send, 104, MPI_INT, receive, 104, MPI_INT, MPI_COMM_WORLD);
  MPI_Gather(send, 105, MPI_SHORT, receive, 105, MPI_SHORT, 1, MPI_COMM_WORLD);
  MPI_Scatter(send, 106, MPI_INT, receive, 106, MPI_INT, 1, MPI_COMM_WORLD);
  MPI_Alltoall(send, 107, MPI_INT, receive, 107, MPI_INT, MPI_COMM_WORLD);
  MPI_Reduce_scatter_block(send, receive, 108, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);

  if (rank == 0) {
    MPI_Send(send, 109, MPI_DOUBLE, other, 5, MPI_COMM_WORLD);
  } else {
    MPI_Recv(receive, 109, MPI_DOUBLE, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Sendrecv(send, 110, MPI_INT, other, 6, receive, 110, MPI_INT, other, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

  MPI_Request requests[3];
  MPI_Iallreduce(send, receive, 111, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Isend(send, 112, MPI_INT, other, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(receive, 113, MPI_INT, other, 7, MPI_COMM_WORLD, &requests[1]);
  MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  int index = 0;
  requests[0] = MPI_REQUEST_NULL;
  MPI_Iallreduce(send, receive, 114, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  polled(rank);

  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, 7, size - rank, &half);
  MPI_Comm_rank(half, &rank);
  MPI_Allreduce(send, receive, 115, MPI_INT, MPI_SUM, half);
  MPI_Finalize();
  return 0;
}
