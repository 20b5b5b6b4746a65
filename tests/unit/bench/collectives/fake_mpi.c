/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with the names of MPI's calls for mpi_test.c, of which each says in `fake_mpi_said` how
 * it was called, and returns `fake_mpi_code`. Built twice: with handles as Open MPI has them
 * (FAKE_OPEN), and as MPICH has them.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(default) /* everything here is what a library exports */

char fake_mpi_said[256];
int fake_mpi_code, fake_mpi_rank, fake_mpi_size = 1, fake_mpi_finalized, fake_mpi_aborted;
int fake_mpi_ops; /* that are made and not given back */

#ifdef FAKE_OPEN
#define handle	     char *
#define OBJECT(name) char ompi_mpi_##name[512] = #name;
#define TEXT(handle) (handle)
#define IN_PLACE     ((const void *)1)
OBJECT(comm_world)
OBJECT(errors_return)
OBJECT(byte)
OBJECT(int8_t)
OBJECT(uint8_t)
OBJECT(int32_t)
OBJECT(uint32_t)
OBJECT(int64_t)
OBJECT(uint64_t)
OBJECT(uint16_t)
OBJECT(float)
OBJECT(double)
OBJECT(op_sum)
OBJECT(op_prod)
OBJECT(op_min)
OBJECT(op_max)
#define VERSION "Open MPI v9.8.7, package: made up"
#else
#define handle	     int
#define IN_PLACE     ((const void *)-1)
static const char *fake_mpi_hex(handle number)
{
	static char texts[8][16];
	static unsigned next;
	char *text = texts[next++ % 8];
	(void)snprintf(text, sizeof(texts[0]), "%x", (unsigned)number);
	return text;
}
#define TEXT(handle) fake_mpi_hex(handle)
#ifdef FAKE_UNKNOWN
#define VERSION "Another MPI 1.0"
#else
#define VERSION "MPICH Version:\t9.8.7\nMPICH Release date:\tnever"
#endif
#endif

static const char *place(const void *memory)
{
	return memory == IN_PLACE ? "in place" : memory ? "memory" : "NULL";
}

#define SAY(...) (void)snprintf(fake_mpi_said, sizeof(fake_mpi_said), __VA_ARGS__)

int MPI_Get_library_version(char *text, int *length)
{
	*length = snprintf(text, 256, "%s", VERSION);
	return 0;
}

int MPI_Initialized(int *flag)
{
	*flag = 0;
	return 0;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	(void)argc;
	(void)argv;
	*provided = required;
	return 0;
}

int MPI_Finalize(void)
{
	fake_mpi_finalized++;
	return 0;
}

int MPI_Abort(handle comm, int code)
{
	(void)comm;
	fake_mpi_aborted = code;
	return 0;
}

int MPI_Comm_rank(handle comm, int *rank)
{
	(void)comm;
	*rank = fake_mpi_rank;
	return 0;
}

int MPI_Comm_size(handle comm, int *size)
{
	(void)comm;
	*size = fake_mpi_size;
	return 0;
}

int MPI_Comm_set_errhandler(handle comm, handle handler)
{
	SAY("errhandler %s %s", TEXT(comm), TEXT(handler));
	return 0;
}

int MPI_Error_string(int code, char *text, int *length)
{
	*length = snprintf(text, 256, "made-up error %d\nwith a second line", code);
	return 0;
}

int MPI_Op_create(void (*function)(void *, void *, int *, void *), int commutes, handle *op)
{
	(void)commutes;
	(void)function;
#ifdef FAKE_OPEN
	static char own[] = "own op";
	*op = own;
#else
	*op = 0x98000000;
#endif
	fake_mpi_ops++;
	return 0;
}

int MPI_Op_free(handle *op)
{
	(void)op;
	fake_mpi_ops--;
	return 0;
}

int MPI_Barrier(handle comm)
{
	SAY("barrier %s", TEXT(comm));
	return fake_mpi_code;
}

int MPI_Allreduce(const void *send, void *receive, int count, handle type, handle op, handle comm)
{
	SAY("allreduce %s %s %d %s %s %s", place(send), place(receive), count, TEXT(type), TEXT(op),
	    TEXT(comm));
	return fake_mpi_code;
}

int MPI_Reduce(const void *send, void *receive, int count, handle type, handle op, int root,
	       handle comm)
{
	SAY("reduce %s %s %d %s %s to %d %s", place(send), place(receive), count, TEXT(type),
	    TEXT(op), root, TEXT(comm));
	return fake_mpi_code;
}

int MPI_Reduce_scatter_block(const void *send, void *receive, int count, handle type, handle op,
			     handle comm)
{
	SAY("reduce_scatter %s %s %d %s %s %s", place(send), place(receive), count, TEXT(type),
	    TEXT(op), TEXT(comm));
	memset(receive, 0x5a, (size_t)count);
	return fake_mpi_code;
}

int MPI_Allgather(const void *send, int send_count, handle send_type, void *receive, int count,
		  handle type, handle comm)
{
	SAY("allgather %s %d %s %s %d %s %s", place(send), send_count, TEXT(send_type),
	    place(receive), count, TEXT(type), TEXT(comm));
	return fake_mpi_code;
}

int MPI_Alltoall(const void *send, int send_count, handle send_type, void *receive, int count,
		 handle type, handle comm)
{
	SAY("alltoall %s %d %s %s %d %s %s", place(send), send_count, TEXT(send_type),
	    place(receive), count, TEXT(type), TEXT(comm));
	return fake_mpi_code;
}

int MPI_Alltoallv(const void *send, const int *send_counts, const int *send_starts,
		  handle send_type, void *receive, const int *counts, const int *starts,
		  handle type, handle comm)
{
	int used = 0;
	for (int i = 0; i < fake_mpi_size && used < 160; i++)
		used +=
		    snprintf(fake_mpi_said + used, sizeof(fake_mpi_said) - (size_t)used,
			     "%d@%d:%d@%d ", send_counts[i], send_starts[i], counts[i], starts[i]);
	(void)snprintf(fake_mpi_said + used, sizeof(fake_mpi_said) - (size_t)used, "%s %s %s %s %s",
		       place(send), TEXT(send_type), place(receive), TEXT(type), TEXT(comm));
	return fake_mpi_code;
}

int MPI_Gather(const void *send, int send_count, handle send_type, void *receive, int count,
	       handle type, int root, handle comm)
{
	SAY("gather %s %d %s %s %d %s to %d %s", place(send), send_count, TEXT(send_type),
	    place(receive), count, TEXT(type), root, TEXT(comm));
	return fake_mpi_code;
}

int MPI_Scatter(const void *send, int send_count, handle send_type, void *receive, int count,
		handle type, int root, handle comm)
{
	SAY("scatter %s %d %s %s %d %s from %d %s", place(send), send_count, TEXT(send_type),
	    place(receive), count, TEXT(type), root, TEXT(comm));
	return fake_mpi_code;
}

int MPI_Bcast(void *memory, int count, handle type, int root, handle comm)
{
	SAY("bcast %s %d %s from %d %s", place(memory), count, TEXT(type), root, TEXT(comm));
	return fake_mpi_code;
}

int MPI_Sendrecv(const void *send, int send_count, handle send_type, int to, int send_tag,
		 void *receive, int count, handle type, int from, int tag, handle comm,
		 void *status)
{
	SAY("sendrecv %s %d %s to %d %s %d %s from %d %s tags %d %d status %ld", place(send),
	    send_count, TEXT(send_type), to, place(receive), count, TEXT(type), from, TEXT(comm),
	    send_tag, tag, (long)(intptr_t)status);
	return fake_mpi_code;
}
