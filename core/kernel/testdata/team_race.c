/*
 * Jobs of many sizes on teams of many sizes, for a thread sanitizer (make race), because Go's race
 * detector does not see C. Every part is done once, by at most the job's number of helpers, and the
 * caller sees the writes of helpers when the job has returned.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../team.h"

enum { MAX_PARTS = 60 };

struct job {
  int done[MAX_PARTS], thread_of[MAX_PARTS]; /* thread_of: the thread that did the part */
  unsigned work[MAX_PARTS];
};

static void part(const void *job, ptrdiff_t i, int thread) {
  struct job *j = (struct job *)job;
  for (volatile unsigned k = 0; k < j->work[i]; k++) continue;
  j->done[i]++;
  j->thread_of[i] = thread;
}

int main(void) {
  long jobs = 0, helped = 0;
  for (int helpers = 1; helpers <= 5; helpers++)
    for (int again = 0; again < 20; again++) {
      struct paceline_team *team = paceline_team_new(helpers);
      if (team == NULL) return 1;
      for (int round = 0; round < 200; round++, jobs++) {
        struct job j = {{0}, {0}, {0}};
        const int allowed = rand() % (helpers + 1), parts = rand() % MAX_PARTS;
        for (int i = 0; i < parts; i++) j.work[i] = (unsigned)rand() % 2000;
        paceline_team_run(team, allowed, parts, part, &j);
        int wrong = 0, joined = 0, threads[6] = {0};
        for (int i = 0; i < MAX_PARTS; i++) {
          wrong += j.done[i] != (i < parts) || j.thread_of[i] < 0 || j.thread_of[i] > helpers;
          threads[j.thread_of[i]] = 1;
        }
        for (int i = 1; i <= helpers; i++) joined += threads[i];
        if (wrong > 0 || joined > allowed) {
          printf("%d parts: %d wrong, %d helpers of %d\n", parts, wrong, joined, allowed);
          return 1;
        }
        helped += joined;
        if (rand() % 16 == 0) usleep((useconds_t)rand() % 300);
      }
      paceline_team_free(team);
    }
  printf("%ld jobs ok, helpers in %ld\n", jobs, helped);
  return helped == 0;
}
