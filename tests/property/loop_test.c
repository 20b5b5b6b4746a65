/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop under callbacks that do random things to each other. Whatever defers itself, every pass
 * ends, calls a deferred task at most once, in order, and only those that were deferred before;
 * sockets, posted tasks, timers and signals have their turn in the pass or the one after; what was
 * cancelled is not called.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "tests/unit/units/brute.h"

enum { ROUNDS = 300, PASSES = 60, TASKS = 12, SOCKETS = 4, TIMERS = 4, TIMER_LATE_S = 30 };

static uint64_t seed;
static unsigned long round_now;

static void fail(const char *what)
{
	fprintf(stderr, "round %lu (SLUICE_TEST_SEED=%" PRIu64 "): %s\n", round_now, seed, what);
	abort();
}

struct world;

struct actor {
	struct world *world;
	struct loop_task task;
	bool is_stubborn; /* defers itself whenever it is called */
	bool is_posted;	  /* waits as a posted task, not a deferred one */
	uint64_t since; /* pass in which it was handed over, and the how manyth; 0: it waits not */
	uint64_t order;
	uint64_t called; /* pass of its last call as a deferred task */
	uint64_t calls;
};

struct pipe {
	struct world *world;
	struct loop_fd *watch;
	int ends[2];
	uint64_t filled; /* pass before which there was a byte; 0: it is empty */
};

struct tick {
	struct world *world;
	struct loop_timer *timer;
	uint64_t due_ns; /* 0: it does not run */
};

struct world {
	struct loop *loop;
	uint64_t pass, order, last_order; /* of what was deferred; of the one called last */
	struct actor actors[TASKS];
	struct pipe pipes[SOCKETS];
	struct tick ticks[TIMERS];
	uint64_t raised; /* pass before which the signal came; 0: none did */
};

static void actor_call(void *context);

static void actor_hand_over(struct actor *actor, bool post)
{
	struct world *world = actor->world;
	if (actor->since != 0)
		return; /* it waits already */
	actor->is_posted = post;
	actor->since = world->pass;
	actor->order = ++world->order;
	if (post)
		loop_post(world->loop, &actor->task, actor_call, actor);
	else
		loop_defer(world->loop, &actor->task, actor_call, actor);
}

static void actor_cancel(struct actor *actor)
{
	loop_cancel(actor->world->loop, &actor->task);
	actor->since = 0;
}

static void tick_start(struct tick *tick)
{
	uint64_t delay_ns = random_below(50) * CLOCK_NS_PER_US;
	tick->due_ns = loop_now_ns(tick->world->loop) + delay_ns;
	loop_timer_start(tick->timer, delay_ns);
}

static void pipe_fill(struct pipe *pipe)
{
	if (pipe->filled == 0 && write(pipe->ends[1], "x", 1) == 1)
		pipe->filled = pipe->world->pass;
}

/* What any callback may do. */
static void act(struct world *world)
{
	struct actor *actor = &world->actors[random_below(TASKS)];
	switch (random_below(8)) {
	case 0:
		actor_hand_over(actor, false);
		break;
	case 1:
		actor_hand_over(actor, true);
		break;
	case 2:
		actor_cancel(actor);
		break;
	case 3:
		pipe_fill(&world->pipes[random_below(SOCKETS)]);
		break;
	case 4:
		tick_start(&world->ticks[random_below(TIMERS)]);
		break;
	default:
		break;
	}
}

static void actor_call(void *context)
{
	struct actor *actor = context;
	struct world *world = actor->world;
	if (actor->since == 0)
		fail("a task was called that was cancelled, or nobody asked for");
	if (!actor->is_posted) {
		if (actor->called == world->pass)
			fail("a deferred task was called twice in one pass: it starves the others");
		if (actor->order < world->last_order)
			fail("deferred tasks were not called in order");
		world->last_order = actor->order;
		actor->called = world->pass;
	}
	actor->since = 0;
	actor->calls++;
	act(world);
	act(world);
	if (actor->is_stubborn)
		actor_hand_over(actor, false);
}

static void pipe_call(int fd, unsigned events, void *context)
{
	struct pipe *pipe = context;
	char byte;
	if (read(fd, &byte, 1) != 1 || pipe->filled == 0)
		fail("a socket was told of without a byte in it");
	pipe->filled = 0;
	act(pipe->world);
}

static void tick_call(void *context)
{
	struct tick *tick = context;
	if (tick->due_ns == 0 || tick->due_ns > loop_now_ns(tick->world->loop))
		fail("a timer was called too early");
	tick->due_ns = 0;
	act(tick->world);
	if (random_below(2) == 0)
		tick_start(tick);
}

static void signal_call(void *context)
{
	struct world *world = context;
	world->raised = 0;
	act(world);
}

/* Nothing waits for longer than until the end of the pass after the one in which it came. */
static void check_turns(const struct world *world)
{
	for (size_t i = 0; i < TASKS; i++) {
		if (world->actors[i].since != 0 && world->pass > world->actors[i].since + 1)
			fail("a task waits for more than a pass");
	}
	for (size_t i = 0; i < SOCKETS; i++) {
		if (world->pipes[i].filled != 0 && world->pass > world->pipes[i].filled + 1)
			fail("a socket waits for more than a pass");
	}
	for (size_t i = 0; i < TIMERS; i++) {
		const struct tick *tick = &world->ticks[i];
		if (tick->due_ns != 0 &&
		    loop_now_ns(world->loop) > tick->due_ns + TIMER_LATE_S * CLOCK_NS_PER_S)
			fail("a timer is not called when it is due");
	}
	if (world->raised != 0 && world->pass > world->raised + 2)
		fail("a signal waits for more than two passes");
}

static void world_open(struct world *world)
{
	world->loop = loop_new(LOOP_REAL, NULL);
	if (!world->loop)
		abort();
	world->pass = 1;
	for (size_t i = 0; i < TASKS; i++)
		world->actors[i] =
		    (struct actor){.world = world, .is_stubborn = random_below(3) == 0};
	for (size_t i = 0; i < SOCKETS; i++) {
		struct pipe *pipe = &world->pipes[i];
		pipe->world = world;
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe->ends) < 0)
			abort();
		pipe->watch =
		    loop_fd_new(world->loop, pipe->ends[0], LOOP_READ, pipe_call, pipe, NULL);
		if (!pipe->watch)
			abort();
	}
	for (size_t i = 0; i < TIMERS; i++) {
		world->ticks[i].world = world;
		world->ticks[i].timer =
		    loop_timer_new(world->loop, tick_call, &world->ticks[i], NULL);
		if (!world->ticks[i].timer)
			abort();
	}
}

static void world_close(struct world *world)
{
	for (size_t i = 0; i < TASKS; i++)
		actor_cancel(&world->actors[i]);
	for (size_t i = 0; i < SOCKETS; i++) {
		(void)loop_fd_free(world->pipes[i].watch);
		(void)close(world->pipes[i].ends[0]);
		(void)close(world->pipes[i].ends[1]);
	}
	for (size_t i = 0; i < TIMERS; i++)
		(void)loop_timer_free(world->ticks[i].timer);
	(void)loop_free(world->loop);
}

static void live(void)
{
	struct world world = {.pass = 1};
	world_open(&world);
	struct loop_signal *watch = loop_signal_new(world.loop, SIGUSR1, signal_call, &world, NULL);
	if (!watch)
		abort();
	for (; world.pass <= PASSES; world.pass++) {
		world.last_order = 0;
		act(&world);
		if (world.raised == 0 && random_below(4) == 0) {
			world.raised = world.pass;
			(void)raise(SIGUSR1);
		}
		if (loop_pass(world.loop, 0, NULL) < 0)
			abort();
		check_turns(&world);
	}
	(void)loop_signal_free(watch);
	world_close(&world);
}

/* As a service runs: a task that never rests, and what must come through all the same. */
struct service {
	struct loop *loop;
	struct loop_task task;
	struct loop_timer *timer;
	int ends[2];
	unsigned told; /* bits: timer, socket, signal */
};

static void service_spin(void *context)
{
	struct service *service = context;
	loop_defer(service->loop, &service->task, service_spin, service);
}

static void service_told(struct service *service, unsigned what)
{
	service->told |= what;
	if (service->told == 7)
		loop_stop(service->loop);
}

static void service_on_timer(void *context)
{
	struct service *service = context;
	service_told(service, 1);
	(void)!write(service->ends[1], "x", 1);
}

static void service_on_socket(int fd, unsigned events, void *context)
{
	char byte;
	(void)!read(fd, &byte, 1);
	service_told(context, 2);
	(void)raise(SIGUSR1);
}

static void service_on_signal(void *context)
{
	service_told(context, 4);
}

static void serve(void)
{
	struct service service = {.loop = loop_new(LOOP_REAL, NULL)};
	if (!service.loop || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, service.ends) < 0)
		abort();
	service.timer = loop_timer_new(service.loop, service_on_timer, &service, NULL);
	struct loop_fd *socket = loop_fd_new(service.loop, service.ends[0], LOOP_READ,
					     service_on_socket, &service, NULL);
	struct loop_signal *watch =
	    loop_signal_new(service.loop, SIGUSR1, service_on_signal, &service, NULL);
	if (!service.timer || !socket || !watch)
		abort();
	loop_timer_start(service.timer, CLOCK_NS_PER_MS);
	service_spin(&service);
	if (loop_run(service.loop, NULL) < 0)
		abort();
	loop_cancel(service.loop, &service.task);
	(void)loop_signal_free(watch);
	(void)loop_fd_free(socket);
	(void)loop_timer_free(service.timer);
	(void)loop_free(service.loop);
	(void)close(service.ends[0]);
	(void)close(service.ends[1]);
}

int main(void)
{
	const char *seed_text = getenv("SLUICE_TEST_SEED"),
		   *rounds_text = getenv("SLUICE_TEST_ROUNDS");
	unsigned long rounds = rounds_text ? strtoul(rounds_text, NULL, 10) : ROUNDS;
	seed = seed_text ? strtoull(seed_text, NULL, 10) : 20261123;
	random_seed(seed);
	printf("seed %" PRIu64 ", %lu rounds\n", seed, rounds);
	(void)alarm(600); /* a loop that starves what must end it is red, not stuck */
	for (round_now = 0; round_now < rounds; round_now++)
		live();
	serve();
	return 0;
}
