/* PACELINE_TILES: whether this compiler knows AMX's bfloat16 tiles. */
#ifndef PACELINE_TILES_H
#define PACELINE_TILES_H

#if defined(__x86_64__) && defined(__clang__)
#define PACELINE_TILES (__clang_major__ >= 12)
#elif defined(__x86_64__)
#define PACELINE_TILES (__GNUC__ >= 11)
#else
#define PACELINE_TILES 0
#endif

#endif
