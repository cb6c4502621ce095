/* A failed save leaves the old file, and a failed load leaves the trainer, as they were. */
#include "counter.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

typedef struct text {
  unsigned char *bytes;
  size_t size;
} text;

static text slurp(const char *path) {
  struct stat s;
  CHECK(stat(path, &s) == 0);
  text t = {malloc((size_t)s.st_size + 1), (size_t)s.st_size};
  FILE *f = fopen(path, "rb");
  CHECK(fread(t.bytes, 1, t.size, f) == t.size);
  fclose(f);
  return t;
}

static void spill(const char *path, const unsigned char *bytes, size_t size) {
  FILE *f = fopen(path, "wb");
  CHECK(f != NULL && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static int unchanged(const char *path, text was) {
  text is = slurp(path);
  int same = is.size == was.size && memcmp(is.bytes, was.bytes, is.size) == 0;
  free(is.bytes);
  return same;
}

static int files_in(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  CHECK(d != NULL);
  for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static unsigned crc32_of(const unsigned char *p, size_t n) {
  unsigned crc = 0xffffffff;
  while (n--) {
    crc ^= *p++;
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (0xedb88320 & -(crc & 1));
  }
  return ~crc;
}

static unsigned get32(const unsigned char *p) { return p[0] | p[1] << 8 | p[2] << 16 | (unsigned)p[3] << 24; }

/* Replaces the digit of "format": 2 in the manifest and corrects the checksums. */
static void make_format(text t, char digit) {
  unsigned char *at = memmem(t.bytes, t.size, "\"format\": 2", 11);
  CHECK(at != NULL);
  at[10] = (unsigned char)digit;
  for (size_t i = 0; i + 46 + 13 < t.size; i++) {
    unsigned char *central = t.bytes + i;
    if (memcmp(central, "PK\1\2", 4) != 0 || memcmp(central + 46, "paceline.json", 13) != 0) continue;
    unsigned char *local = t.bytes + get32(central + 42);
    unsigned char *data = local + 30 + (local[26] | local[27] << 8) + (local[28] | local[29] << 8);
    unsigned size = get32(central + 24), crc = crc32_of(data, size);
    CHECK(at > data && at < data + size);
    for (int k = 0; k < 4; k++) central[16 + k] = local[14 + k] = (unsigned char)(crc >> 8 * k);
    if (get32(data + size) == 0x08074b50) /* the data descriptor repeats the checksum */
      for (int k = 0; k < 4; k++) data[size + 4 + (unsigned)k] = (unsigned char)(crc >> 8 * k);
    return;
  }
  CHECK(!"no paceline.json");
}

static paceline_trainer *t;
static hashes before;

/* Every load refuses path, and the trainer is as it was. */
static void refused(const char *path, int status, const char *says) {
  FAILS(paceline_trainer_load(t, path), status, says);
  CHECK(same(hashes_of(t), before));
  paceline_policy *p = (void *)1;
  int got = paceline_policy_load(&p, path);
  CHECK((got == status || got == PACELINE_OK) && (got == PACELINE_OK || p == (void *)1));
  if (got == PACELINE_OK) paceline_policy_free(p); /* the damage is in a part that a policy does not read */
  paceline_config *cfg = (void *)1;
  got = paceline_config_load(&cfg, path);
  CHECK((got == status || got == PACELINE_OK) && (got == PACELINE_OK || cfg == (void *)1));
  if (got == PACELINE_OK) paceline_config_free(cfg);
}

int main(void) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", tmp("saves"));
  mkdir(folder, 0700);
  char path[4200];
  snprintf(path, sizeof path, "%s/a.paceline", folder);

  t = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 1000, 0));
  OK(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE));
  text good = slurp(path);
  OK(paceline_trainer_run(NULL, t, 100, 0)); /* a save would now have other bytes */
  before = hashes_of(t);

  /* Paths that cannot be written. */
  FAILS(paceline_trainer_save(t, "/no such folder/x", 0), PACELINE_EIO, "/no such folder");
  FAILS(paceline_trainer_save(t, folder, 0), PACELINE_EINVAL, "directory");
  FAILS(paceline_trainer_save(t, "/dev/full/x", 0), PACELINE_EIO, "/dev/full");

  /* A disk that is full, at every stage of a save. */
  signal(SIGXFSZ, SIG_IGN);
  for (size_t limit = 0; limit < good.size; limit += good.size / 23 + 1) {
    struct rlimit most = {limit, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_FSIZE, &most) == 0);
    int status = paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE);
    struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_FSIZE, &any) == 0);
    STATUS(status, PACELINE_EIO);
    CHECK(strstr(paceline_last_error(), "too large") != NULL);
    CHECK(unchanged(path, good) && files_in(folder) == 1);
  }
  OK(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE)); /* the trainer still works */
  CHECK(!unchanged(path, good));
  spill(path, good.bytes, good.size);

  /* Files that are missing, truncated, of another format, damaged or of a newer version. */
  const char *bad = tmp("bad.paceline");
  refused(tmp("missing.paceline"), PACELINE_EIO, "missing.paceline");
  refused(folder, PACELINE_EIO, "is a directory, must be a file");
  const char *pipe = tmp("pipe");
  CHECK(mkfifo(pipe, 0600) == 0); /* without a writer: opening it would wait for ever */
  refused(pipe, PACELINE_EIO, "is a named pipe, must be a file");
  refused("/dev/zero", PACELINE_EIO, "is a device, must be a file");
  FAILS(paceline_trainer_save(t, pipe, 0), PACELINE_EINVAL, "is a named pipe, must be a file");
  FAILS(paceline_trainer_save(t, "/dev/null", 0), PACELINE_EINVAL, "is a device, must be a file");
  for (size_t size = 0; size < good.size; size += good.size / 37 + 1) {
    spill(bad, good.bytes, size);
    refused(bad, PACELINE_EIO, "bad.paceline");
  }
  spill(bad, good.bytes, good.size - 1);
  refused(bad, PACELINE_EIO, "bad.paceline");
  spill(bad, (const unsigned char *)"not a checkpoint at all", 23);
  refused(bad, PACELINE_EIO, "not a whole checkpoint");
  /* An empty zip archive. */
  spill(bad, (const unsigned char *)"PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
  refused(bad, PACELINE_EIO, "paceline.json");
  int found = 0;
  for (size_t at = 100; at < good.size - 2000; at += good.size / 53 + 1) {
    good.bytes[at] ^= 0x10;
    spill(bad, good.bytes, good.size);
    good.bytes[at] ^= 0x10;
    int status = paceline_trainer_load(t, bad);
    if (status == PACELINE_OK) { /* no load reads this byte */
      before = hashes_of(t);
      continue;
    }
    CHECK(status == PACELINE_EIO || status == PACELINE_EINVAL);
    CHECK(same(hashes_of(t), before));
    found++;
  }
  CHECK(found > 20);
  text newer = slurp(path);
  make_format(newer, '9');
  spill(bad, newer.bytes, newer.size);
  refused(bad, PACELINE_EVERSION, "format 9");
  free(newer.bytes);
  text older = slurp(path);
  make_format(older, '1');
  spill(bad, older.bytes, older.size);
  refused(bad, PACELINE_EVERSION, "checkpoint of format 1");
  free(older.bytes);

  /* A complete checkpoint of other settings. */
  paceline_trainer *other = quick("Acrobot-v1");
  FAILS(paceline_trainer_load(other, path), PACELINE_EINVAL, "CartPole-v1");
  OK(paceline_trainer_run(NULL, other, 50, 0));
  paceline_trainer_free(other);
  paceline_policy *p;
  OK(paceline_policy_load(&p, path));
  OK(paceline_policy_save(p, bad));
  paceline_policy_free(p);
  FAILS(paceline_trainer_load(t, bad), PACELINE_EINVAL, "policy");
  CHECK(same(hashes_of(t), before));

  /* The valid file still loads and learning goes on. */
  OK(paceline_trainer_load(t, path));
  CHECK(stats_of(t).num_timesteps == 1000);
  OK(paceline_trainer_begin(t, 200, 0));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  CHECK(stats_of(t).num_timesteps == 1200);
  paceline_trainer_free(t);
  free(good.bytes);

  /* If an environment fails to save, the file fails, and without experience it does not. */
  family f = counters(FAIL_SAVE, 0);
  OK(counter_trainer(&t, &f, 1));
  OK(paceline_trainer_run(NULL, t, 500, 0));
  FAILS(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE), PACELINE_ECALLBACK,
        "environment 0: cannot be written down");
  OK(paceline_trainer_save(t, path, 0));
  paceline_trainer_free(t);

  /* A state of 4 GiB cannot be saved: the library does not allocate it. */
  f = counters(HUGE_SAVE, 0);
  OK(counter_trainer(&t, &f, 1));
  OK(paceline_trainer_run(NULL, t, 500, 0));
  FAILS(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE), PACELINE_ECALLBACK, "must be at most 268435456");
  paceline_trainer_free(t);
  return 0;
}
