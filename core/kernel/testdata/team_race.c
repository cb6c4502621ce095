/*
 * Jobs of many sizes on teams of many sizes, for a thread sanitizer (make race):
 * Go's race detector does not see C. Every part is done once, by no more threads than
 * the job may have, and what helpers wrote is there when the job has returned.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../team.h"

enum { MOST = 60 };

struct job {
  int done[MOST], by[MOST]; /* by: which thread */
  unsigned work[MOST];
};

static void part(const void *job, ptrdiff_t i, int thread) {
  struct job *j = (struct job *)job;
  for (volatile unsigned k = 0; k < j->work[i]; k++) continue;
  j->done[i]++;
  j->by[i] = thread;
}

int main(void) {
  long jobs = 0, helped = 0;
  for (int helpers = 1; helpers <= 5; helpers++)
    for (int again = 0; again < 20; again++) {
      struct paceline_team *team = paceline_team_new(helpers);
      if (team == NULL) return 1;
      for (int round = 0; round < 200; round++, jobs++) {
        struct job j = {{0}, {0}, {0}};
        const int most = rand() % (helpers + 1), parts = rand() % MOST;
        for (int i = 0; i < parts; i++) j.work[i] = (unsigned)rand() % 2000;
        paceline_team_run(team, most, parts, part, &j);
        int wrong = 0, came = 0, threads[6] = {0};
        for (int i = 0; i < MOST; i++) {
          wrong += j.done[i] != (i < parts) || j.by[i] < 0 || j.by[i] > helpers;
          threads[j.by[i]] = 1;
        }
        for (int i = 1; i <= helpers; i++) came += threads[i];
        if (wrong > 0 || came > most) {
          printf("%d parts: %d wrong, %d helpers of %d\n", parts, wrong, came, most);
          return 1;
        }
        helped += came;
        if (rand() % 16 == 0) usleep((useconds_t)rand() % 300);
      }
      paceline_team_free(team);
    }
  printf("%ld jobs ok, helpers in %ld\n", jobs, helped);
  return helped == 0;
}
