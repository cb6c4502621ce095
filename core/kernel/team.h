/* Threads that share one call's work; see team.c. */
#ifndef PACELINE_TEAM_H
#define PACELINE_TEAM_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

struct paceline_team;

/* Does one part of a job. thread is 0 for the caller, else which of all the helpers. */
typedef void (*paceline_part)(const void *job, ptrdiff_t part, int thread);

/* Starts 1 or more helpers; NULL where the system refuses. */
struct paceline_team *paceline_team_new(int helpers);

/* Sends the helpers home and waits for them. No job is running. */
void paceline_team_free(struct paceline_team *team);

/*
 * Calls f for the parts 0 to parts-1, each once, and returns when all have
 * returned. At most so many helpers take part, whichever come first; with none, team may be NULL. One
 * job at a time.
 */
void paceline_team_run(struct paceline_team *team, int helpers, ptrdiff_t parts, paceline_part f, const void *job);

#pragma GCC visibility pop

#endif
