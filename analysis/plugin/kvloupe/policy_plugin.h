/* A score of your own for kvloupe, as a shared library: the interface, in C11 and C++. In C++,
   include kvloupe/score.h instead, which wraps it.

   The library exports one symbol, `kvloupe_policy_plugin` (last in this file). When a program is
   started with --plugin FILE it loads the library, compares the number of the interface, and calls
   register_scores, which adds the library's scores to the catalogue. A score gives each entry of a
   head's cache a number; entries with higher numbers are kept. Protection, budgets, selection and
   merging are kvloupe's.

   Rules of this border
   - Text is UTF-8 and ends with a zero. What register_scores hands over is copied.
   - A function that returns int32_t returns 0 when it succeeded. Otherwise it has written one line
     with a zero at its end into `error`, which has room for KVLOUPE_ERROR_BYTES bytes.
   - C++ exceptions must not leave a function.
   - register_scores is called once, before any other function. Objects (create) may be made, used
     and destroyed on different threads, several objects at the same time. Each object is used by
     one thread at a time, unless the score has the flag KVLOUPE_PARALLEL_HEADS: then calls for
     different heads of one object may come at the same time.
   - Pointers that a call receives are valid during this call; those of kvloupe_layer as long as
     the object that was created with it.
   - The library stays loaded until the program ends.
   - Scores must be deterministic: the same calls give the same numbers. */
#ifndef KVLOUPE_POLICY_PLUGIN_H
#define KVLOUPE_POLICY_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface. A program loads only plugins that were built with its own. */
#define KVLOUPE_POLICY_INTERFACE 1

#define KVLOUPE_ERROR_BYTES 512

#if defined(__GNUC__)
#define KVLOUPE_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define KVLOUPE_PLUGIN_EXPORT
#endif

/* ---- what a score is ---- */

enum {                     /* kvloupe_parameter.type */
       KVLOUPE_COUNT = 0,  /* a whole number */
       KVLOUPE_FLAG = 1,   /* 0 or 1 */
       KVLOUPE_NUMBER = 2, /* a real number */
       KVLOUPE_SHARE = 3,  /* a person writes entries, or a percentage of the budget; the default is
                              a  percentage; the score gets entries */
       KVLOUPE_WORD = 4,   /* one of `words` */
       KVLOUPE_TEXT = 5,   /* any text */
       KVLOUPE_FILE = 6    /* the path of a file; results depend on the file's size and date */
};

typedef struct kvloupe_parameter {
  const char* name; /* letters, digits and _ */
  const char* meaning;
  int32_t type;
  int32_t word_count;
  const char* const* words; /* of KVLOUPE_WORD */
  double default_number;    /* of count, flag, number, share */
  double minimum, maximum;  /* of count, number */
  const char* default_text; /* of word, text, file; NULL for text and file: must be given */
} kvloupe_parameter;

/* The value of a parameter, in the order of the score's parameters. */
typedef struct kvloupe_value {
  double number;    /* of count, flag, number; of share: entries */
  const char* text; /* of word, text, file; else NULL */
} kvloupe_value;

enum { /* kvloupe_score.flags */
       KVLOUPE_READS_QUERIES =
           1, /* reads kvloupe_step.queries or attention, which others do not get */
       KVLOUPE_READS_VALUES = 2,  /* reads kvloupe_cache.values, which others do not get */
       KVLOUPE_ONE_SET = 4,       /* all heads of a layer get the same scores */
       KVLOUPE_PARALLEL_HEADS = 8 /* different heads of an object may be used at the same time */
};

enum { /* kvloupe_score.scale: what the numbers are, for modifiers that compute with them */
       KVLOUPE_SIGNED_OWN = 0, /* every head has a scale of its own; numbers may be negative */
       KVLOUPE_PER_HEAD = 1,   /* the same, never negative */
       KVLOUPE_COMMON = 2,     /* never negative, and alike in all heads */
       KVLOUPE_ATTENTION = 3   /* attention per query: never negative, alike in all heads */
};

/* ---- what a score is told ---- */

/* The layer an object decides for. */
typedef struct kvloupe_layer {
  int32_t layer;       /* its number, from 0 */
  int32_t layers;      /* of the model */
  int32_t heads;       /* key-value heads of the layer */
  int32_t query_heads; /* a multiple of `heads`: query head q is served by head q / (query_heads /
                          heads) */
  int32_t head_dim;
  int32_t sliding_window; /* tokens that a query sees, its own included; 0: all */
  int32_t budget;         /* entries per head after a step; under an allocation the mean */
  double attention_scale; /* the factor of q.k in the logits */
  /* Turns a key or query of head_dim numbers back to what it was before RoPE at this token. */
  int32_t (*unrotate)(const struct kvloupe_layer* layer, int32_t token, float* row, char* error);
  const void* host; /* kvloupe's own */
  /* Since 0.3. */
  int32_t chunk_size; /* a query sees the tokens of its own chunk of so many; 0: without chunks */
} kvloupe_layer;

/* Entries that a score keeps by its own definition, inside the budget. */
typedef struct kvloupe_protection {
  int32_t first_tokens; /* tokens with a smaller index */
  int32_t last_entries; /* the last entries of the cache */
} kvloupe_protection;

/* A row-major matrix: row i begins at data + i * stride. */
typedef struct kvloupe_rows {
  const float* data; /* NULL: not given */
  int64_t rows;
  int64_t columns;
  int64_t stride;
} kvloupe_rows;

enum {                        /* kvloupe_cache.roles, bits */
       KVLOUPE_NEW_ENTRY = 1, /* appended at this step */
       KVLOUPE_PROTECTED_ENTRY =
           2, /* kept whatever its score (sinks, recent, keep, the score itself) */
       KVLOUPE_MERGED_ENTRY = 4 /* stands for several tokens: its log size is not 0 */
};

/* The cache of one head at a step, before eviction: n entries in the order of their tokens. */
typedef struct kvloupe_cache {
  int32_t entries;        /* n */
  const int32_t* tokens;  /* [n] token indices (positions), ascending */
  const uint8_t* roles;   /* [n] */
  kvloupe_rows keys;      /* [n, head_dim], after RoPE */
  kvloupe_rows values;    /* [n, head_dim], with KVLOUPE_READS_VALUES */
  const float* log_sizes; /* [n] added to the logits of merged entries; NULL: all 0 */
} kvloupe_cache;

/* One step: a block of tokens was appended and has attended. */
typedef struct kvloupe_step {
  int32_t step;               /* its number, from 0 */
  int32_t first_new, end_new; /* the tokens of the block: [first_new, end_new) */
  int32_t first_visible;      /* later queries see no token before this one (sliding window) */
  int32_t budget;             /* entries per head that the layer may hold at this step; in observe
                                 the layer's budget */
  int32_t heads, query_heads;
  const kvloupe_cache* caches; /* [heads] */
  const kvloupe_rows* queries; /* [query_heads] of [end_new - first_new, head_dim], after RoPE, with
                                  KVLOUPE_READS_QUERIES; else NULL */
  /* With KVLOUPE_READS_QUERIES. The softmax rows of the block's last `count` queries over the
     cache (all rows, if there are fewer), oldest first; valid until the next call for this query
     head. data is NULL where it failed: then return from your function with an error. */
  kvloupe_rows (*attention)(const struct kvloupe_step* step, int32_t query_head, int32_t count);
  /* With KVLOUPE_READS_QUERIES. The sum of all rows of the block: [n]; NULL where it failed. */
  const float* (*attention_sums)(const struct kvloupe_step* step, int32_t query_head);
  void* host; /* kvloupe's own */
} kvloupe_step;

/* Entries that became one. Rows index the cache before eviction. */
typedef struct kvloupe_merge {
  int32_t into;        /* the row that took them up; it is kept */
  int32_t members;     /* number of rows in `from` */
  const int32_t* from; /* [members], ascending, `into` included */
  int32_t key_changed; /* 1: the key of `into` is new; 0: only its value */
} kvloupe_merge;

/* What a step left of one head's cache. */
typedef struct kvloupe_retained {
  int32_t entries; /* n, before eviction */
  int32_t kept_count;
  const int32_t* kept; /* [kept_count] rows of the cache before eviction, ascending */
  int32_t merge_count;
  const kvloupe_merge* merges;
} kvloupe_retained;

/* ---- the score ---- */

typedef struct kvloupe_score {
  uint32_t size;  /* sizeof(kvloupe_score) */
  uint32_t flags; /* KVLOUPE_READS_QUERIES | ... */
  int32_t scale;
  int32_t parameter_count;
  const kvloupe_parameter* parameters;
  const char* name;        /* of specs: a letter, then letters, digits and _; not taken yet */
  const char* summary;     /* one line */
  const char* formula;     /* one line: the score of entry i */
  const char* source;      /* who proposed it: paper and equation */
  const char* cost;        /* what a step costs, such as "n d products", or NULL */
  const char* differences; /* how other codes differ, or NULL */
  const char* example;     /* a spec that shows it, or NULL: the name alone is one */
  void* context;           /* handed to create */
  /* Makes the object of one layer. `protection` holds zeros. */
  int32_t (*create)(void* context, const kvloupe_layer* layer, const kvloupe_value* values,
                    kvloupe_protection* protection, void** object, char* error);
  /* At every step, evicting or not, before anything else. May be NULL. */
  int32_t (*observe)(void* object, const kvloupe_step* step, int32_t head, char* error);
  /* Fills scores [n] of this head: finite numbers, higher = kept. Called only at steps that evict
     or show scores, after observe. */
  int32_t (*score)(void* object, const kvloupe_step* step, int32_t head, float* scores,
                   char* error);
  /* Last at every step, and where entries leave a sliding window: forget what was not kept. May be
     NULL. */
  int32_t (*retain)(void* object, const kvloupe_retained* retained, int32_t head, char* error);
  void (*destroy)(void* object);
} kvloupe_score;

/* ---- the plugin ---- */

/* What register_scores is given. */
typedef struct kvloupe_host {
  uint32_t size;       /* sizeof(kvloupe_host) */
  uint32_t interface_; /* KVLOUPE_POLICY_INTERFACE of the program */
  int32_t (*add_score)(const struct kvloupe_host* host, const kvloupe_score* score, char* error);
  void* host; /* kvloupe's own */
} kvloupe_host;

typedef struct kvloupe_plugin {
  uint32_t interface_; /* KVLOUPE_POLICY_INTERFACE; first in every version */
  uint32_t size;       /* sizeof(kvloupe_plugin) */
  const char* name;    /* of the plugin, for messages */
  int32_t (*register_scores)(const kvloupe_host* host, char* error);
} kvloupe_plugin;

/* The symbol that a plugin defines. */
extern KVLOUPE_PLUGIN_EXPORT const kvloupe_plugin kvloupe_policy_plugin;

#ifdef __cplusplus
}
#endif

#endif
