/* Threads that share the work of one call; see team.c. */
#ifndef PACELINE_TEAM_H
#define PACELINE_TEAM_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

struct paceline_team;

/* Does one part of a job. thread is 0 for the caller, 1 and up for the helpers. */
typedef void (*paceline_part)(const void *job, ptrdiff_t part, int thread);

/* Starts helpers, at least 1; returns NULL if the system refuses. */
struct paceline_team *paceline_team_new(int helpers);

/* Ends the helpers and waits for them. No job may be running. */
void paceline_team_free(struct paceline_team *team);

/*
 * Calls f once for each part 0 to parts-1 and returns when all calls have returned. At most
 * `helpers` helpers take part, those that wake first. With 0 helpers, team may be NULL. A team runs
 * one job at a time.
 */
void paceline_team_run(struct paceline_team *team, int helpers, ptrdiff_t parts, paceline_part f, const void *job);

#pragma GCC visibility pop

#endif
