/* kvloupe's engine for other programs, in C11 and C++: traces, replays, measures, and policies that
   decide about the cache of a running model. The library is libkvloupe_engine.so.

   Rules of this border
   - A function that returns int32_t returns KVLOUPE_ENGINE_DONE, or says why not: `error` has room
     for KVLOUPE_ENGINE_ERROR_BYTES bytes and then holds one line (what is wrong, where, what to do)
     with a zero at its end. `error` may be NULL. A function that fails makes no object.
   - No C++ exception leaves a function.
   - Text is UTF-8 and ends with a zero.
   - Numbers of an array are side by side, the last index first, unless strides say otherwise.
   - Structs that a caller fills begin with their size, so that later versions can add fields.
   - Pointers that a call returns belong to the object they come from: they are valid until its next
     call, where nothing else is said.
   - Different objects may be used on different threads at the same time; each object by one thread
     at a time, but a trace by several. kvloupe_engine_work_stop() and _fraction() may be called
     while another thread works. A call uses all cores.
   - Words are those of the plugin interface (policy_plugin.h): layer, head, query head, entry, row,
     token, step, block. Rows index the cache before a step's eviction; a token is its position.
   - Files are opened in this process. A policy python("file.py:name") runs that file: the one who
     writes the spec allows it. */
#ifndef KVLOUPE_ENGINE_H
#define KVLOUPE_ENGINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KVLOUPE_ENGINE_EXPORT __attribute__((visibility("default")))
#else
#define KVLOUPE_ENGINE_EXPORT
#endif

/* The number of this interface. Compare it with kvloupe_engine_interface() before any other call.
 */
#define KVLOUPE_ENGINE_INTERFACE 3

#define KVLOUPE_ENGINE_ERROR_BYTES 2048

enum { /* what a function returns */
       KVLOUPE_ENGINE_DONE = 0,
       KVLOUPE_ENGINE_FAILED = 1, /* a file, or the work itself */
       KVLOUPE_ENGINE_MISUSED =
           2, /* what was asked for: a spec, a budget, a shape, a layer, a token */
       KVLOUPE_ENGINE_CANCELLED = 3 /* kvloupe_engine_work_stop() was called */
};

/* The library's KVLOUPE_ENGINE_INTERFACE. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_interface(void);
/* The version of kvloupe, such as "0.2.0"; valid for ever. */
KVLOUPE_ENGINE_EXPORT const char* kvloupe_engine_version(void);
/* The text of policy_plugin.h and of this file; valid for ever. */
KVLOUPE_ENGINE_EXPORT const char* kvloupe_engine_declarations(void);

/* ---- work that takes long ---- */

/* Handed to one call at a time, which another thread may then stop or watch. */
typedef struct kvloupe_engine_work kvloupe_engine_work;
/* NULL if there is no memory. */
KVLOUPE_ENGINE_EXPORT kvloupe_engine_work* kvloupe_engine_work_create(void);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_work_destroy(kvloupe_engine_work* work);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_work_stop(kvloupe_engine_work* work);
/* on = 1: from now on SIGINT (Ctrl-C) stops this work, and then goes to the handler that was there;
   where there was none, nothing changes. on = 0: the handler is the old one again. For one work of
   a process at a time, from one thread. */
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_work_stop_by_interrupt(kvloupe_engine_work* work,
                                                                 int32_t on);
/* How much is done: 0 to 1. */
KVLOUPE_ENGINE_EXPORT double kvloupe_engine_work_fraction(const kvloupe_engine_work* work);

/* ---- a policy in a running model ---- */

enum { /* kvloupe_engine_states.type */
       KVLOUPE_ENGINE_FLOAT32 = 0,
       KVLOUPE_ENGINE_FLOAT16 = 1, /* IEEE binary16 */
       KVLOUPE_ENGINE_BFLOAT16 = 2 /* the upper half of a float32 */
};

/* States of all heads, read where they are: number c of row r of head h stands at
   data[h * head_stride + r * row_stride + c]. Strides count numbers, not bytes. Every number must
   be finite. */
typedef struct kvloupe_engine_states {
  const void* data; /* NULL: not given */
  int32_t type;
  int32_t heads;
  int64_t rows, columns;
  int64_t head_stride, row_stride;
} kvloupe_engine_states;

enum { /* what a policy reads beside keys, bits */
       KVLOUPE_ENGINE_READS_QUERIES = 1,
       KVLOUPE_ENGINE_READS_VALUES = 2,
       KVLOUPE_ENGINE_READS_OUTPUT_WEIGHTS = 4,
       KVLOUPE_ENGINE_MERGES =
           8, /* kvloupe_engine_retained.merges may be there; reads values, too */
       KVLOUPE_ENGINE_ROUNDS = 16 /* entries lose bits (quant): kvloupe_engine_retained.keys and
                                     .values may be there, at any step; reads values, too */
};

/* The layer a policy decides for. */
typedef struct kvloupe_engine_layer {
  uint32_t size;       /* sizeof(kvloupe_engine_layer) */
  int32_t layer;       /* its number, from 0 */
  int32_t layers;      /* of the model */
  int32_t heads;       /* key-value heads of the layer */
  int32_t query_heads; /* a multiple of `heads`: query head q is served by head q / (query_heads /
                          heads) */
  int32_t key_dim;     /* of a query or a key */
  int32_t value_dim;
  int32_t sliding_window; /* tokens that a query sees, its own included; 0: all */
  int32_t budget;         /* entries per head after a step; under an allocation the mean */
  int32_t compact; /* 0: attention rotates keys to their tokens; 1: to their places in the cache */
  int32_t rotary_start; /* the first channel that rotates */
  int32_t rotary_dim;   /* how many rotate; 0: all */
  int32_t interleaved;  /* 0: channels j and j + rotary_dim/2 rotate together; 1: 2j and 2j + 1 */
  int32_t chunk_size;   /* C: a query sees the tokens of its own chunk, from a multiple of C on; 0:
                           without chunks. Not beside a sliding window */
  double rope_theta;    /* 0: the layer does not rotate */
  const char* rope_scaling; /* as in config.json, a JSON object; NULL: none */
  double attention_scale;   /* the factor of q.k in the logits */
  double softcap;           /* logits are c tanh(scale q.k / c); 0: none */
  const float* sink_logits; /* [query_heads]; NULL: none */
  /* [query_heads] of [value_dim, hidden size]: the rows of W_O of each query head. Read during
     create. Only for policies with KVLOUPE_ENGINE_READS_OUTPUT_WEIGHTS. */
  kvloupe_engine_states output_weights;
  int32_t prompt_length;  /* tokens of the prompt; what follows them is generated. 0: not known, and
                             every, only and protect_prompt are refused */
  int32_t values_in_keys; /* 1: a value is the first value_dim numbers of its key, as in a cache of
                             latents; where a key loses bits, so does its value */
} kvloupe_engine_layer;

/* A block of tokens that was appended to the caches and has attended. */
typedef struct kvloupe_engine_block {
  uint32_t size;              /* sizeof(kvloupe_engine_block) */
  int32_t first_new, end_new; /* its tokens [first_new, end_new); first_new is the last end_new */
  int32_t last;               /* 1: no token follows */
  int32_t acts; /* 0: nothing is evicted at this step, nor may the policy act at a later one */
  kvloupe_engine_states
      queries;                /* [query_heads] of [tokens, key_dim], after RoPE, at their tokens */
  kvloupe_engine_states keys; /* [heads] of [tokens, key_dim], after RoPE, at their tokens */
  kvloupe_engine_states values; /* [heads] of [tokens, value_dim] */
} kvloupe_engine_block;

/* Entries that became one: the value of `into` is `value`, and its key is `key` where that changed.
 */
typedef struct kvloupe_engine_merge {
  int32_t into;         /* the row that took them up; it is kept */
  int32_t members;      /* number of rows in `from` */
  const int32_t* from;  /* [members], ascending, `into` included */
  int32_t key_changed;  /* 1: the key of `into` is new; 0: only its value */
  float log_size;       /* added to the logits of the merged entry */
  const float* weights; /* [members] */
  const float* key;     /* [key_dim], after RoPE, at the token of `into`; NULL unless key_changed */
  const float* value;   /* [value_dim] */
} kvloupe_engine_merge;

/* Entries that lose bits (quant): the rows [first, first + count) of what is left after the step's
   merges and eviction hold these numbers from now on. They stay so: no entry loses bits twice. */
typedef struct kvloupe_engine_rounded {
  int32_t first, count;
  const float* numbers; /* [count, key_dim], after RoPE, at their tokens, or [count, value_dim];
                           NULL: none */
} kvloupe_engine_rounded;

/* What a step leaves of one head's cache. */
typedef struct kvloupe_engine_retained {
  int32_t entries;     /* n, before eviction, the block's own included */
  int32_t left_window; /* the first so many rows have left the sliding window: the policy does not
                          know them, and they are not kept */
  int32_t kept_count;
  const int32_t* kept;   /* [kept_count] rows, ascending */
  const int32_t* tokens; /* [kept_count] positions of these rows, ascending */
  int32_t merge_count;
  const kvloupe_engine_merge*
      merges;             /* after them and after the eviction, rows are as `kept` says */
  const float* log_sizes; /* [kept_count] added to the logits from now on; NULL: all 0 */
  const float* scores;    /* [entries - left_window], higher = kept; NULL: none were needed */
  float threshold;        /* the lowest score that was kept for its score; NaN: none was */
  kvloupe_engine_rounded keys, values;
} kvloupe_engine_retained;

/* What a policy with this spec reads: bits, without KVLOUPE_ENGINE_MERGES, and without that of
   values unless entries lose bits: these depend on the layer. Refuses a spec that cannot run in a
   model (it needs later queries, a second reading of the context, or all layers). */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_spec_reads(const char* spec, uint32_t* reads,
                                                        char* error);
/* Refuses a spec that has no meaning where the policy never acts on a generated token, such as one
   with a cadence of generated tokens. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_check_reads_only(const char* spec, char* error);
/* Entries for a budget as a person writes it, "128" or "25%" of the prompt's length. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_budget(const char* text, int32_t prompt_length,
                                                    int32_t* entries, char* error);

/* Adds a score of the calling program, which is described in policy_plugin.h, to the specs of this
   process: before any other call that reads a spec. Its functions may be called on several threads.
 */
struct kvloupe_score;
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_add_score(const struct kvloupe_score* score,
                                                       char* error);

/* The state machine of one layer, all heads together. It holds keys, and values where it reads
   them, of what is in the caches, in float32. */
typedef struct kvloupe_engine_policy kvloupe_engine_policy;
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_policy_create(const char* spec,
                                                           const kvloupe_engine_layer* layer,
                                                           kvloupe_engine_policy** policy,
                                                           char* error);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_policy_destroy(kvloupe_engine_policy* policy);
/* All bits. States that a policy does not read need not be given to step. */
KVLOUPE_ENGINE_EXPORT uint32_t kvloupe_engine_policy_reads(const kvloupe_engine_policy* policy);
/* The canonical spec; valid as long as the policy. */
KVLOUPE_ENGINE_EXPORT const char* kvloupe_engine_policy_spec(const kvloupe_engine_policy* policy);
/* Appends a block, decides, and carries the decisions out: retained [heads], also where nothing was
   evicted. Steps count from 0. After a step that failed the policy is of no more use. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_policy_step(kvloupe_engine_policy* policy,
                                                         const kvloupe_engine_block* block,
                                                         const kvloupe_engine_retained** retained,
                                                         char* error);

/* ---- traces ---- */

typedef struct kvloupe_engine_trace kvloupe_engine_trace;
/* Opens a trace file and checks every shape in it. It stays open until it is closed; a replay of it
   keeps what it needs. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_trace_open(const char* path,
                                                        kvloupe_engine_trace** trace, char* error);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_trace_close(kvloupe_engine_trace* trace);

/* ---- replays ---- */

enum {
  KVLOUPE_ENGINE_AS_CAPTURED = -1,
  KVLOUPE_ENGINE_REGULAR = 0,
  KVLOUPE_ENGINE_CONTEXT_ONLY = 1
};

typedef struct kvloupe_engine_replay_request {
  uint32_t size;       /* sizeof(kvloupe_engine_replay_request) */
  int32_t block;       /* tokens per step of the prompt; 0: the capture's; -1: one block */
  int32_t compression; /* KVLOUPE_ENGINE_AS_CAPTURED, ... */
  int32_t measured;    /* 1: the cheap measures at every step, and those named; 0: nothing */
  const char* policy;  /* a spec */
  const char* budget;  /* "128" or "25%" */
  const char* layers;  /* "0-3,7"; NULL: all */
  int32_t measure_count;
  const char* const* measures; /* more measures, by their names in `kvloupe measures`; "all" */
  kvloupe_engine_work* work;   /* NULL: it cannot be stopped */
} kvloupe_engine_replay_request;

typedef struct kvloupe_engine_replay kvloupe_engine_replay;
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_replay_create(
    const kvloupe_engine_trace* trace, const kvloupe_engine_replay_request* request,
    kvloupe_engine_replay** replay, char* error);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_replay_destroy(kvloupe_engine_replay* replay);

typedef struct kvloupe_engine_replay_facts {
  const char* policy; /* the canonical spec; valid as long as the replay */
  int32_t budget;     /* entries */
  int32_t block;      /* tokens */
  int32_t heads, steps, tokens;
} kvloupe_engine_replay_facts;
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_replay_describe(const kvloupe_engine_replay* replay,
                                                          kvloupe_engine_replay_facts* facts);
/* layer_head [heads, 2], ends [steps]: one past the last token of each step; evicted_at
   [heads, tokens]: the step at which a token left, -1: never. Each may be NULL. A head retains
   after step s the tokens before ends[s] with evicted_at = -1 or evicted_at > s, of a layer with a
   sliding window less those that no later query sees. */
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_replay_sets(const kvloupe_engine_replay* replay,
                                                      int32_t* layer_head, int32_t* ends,
                                                      int32_t* evicted_at);
/* The tokens that a head (0 to heads - 1, in the order of the replay) retains after a step,
   ascending: their number is `count`; tokens = NULL only asks for it, else there is room for
   `room`. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_replay_retained(const kvloupe_engine_replay* replay,
                                                             int32_t head, int32_t step,
                                                             int32_t* tokens, int32_t room,
                                                             int32_t* count, char* error);
/* A measure of the replay, whether it was measured or not. per_step = 0: one number for each head,
   values [heads], by the measure's own summary. per_step = 1: values [heads, steps], of a measure
   of query heads their mean. NaN where it is not known. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_replay_measure(kvloupe_engine_replay* replay,
                                                            const char* name, int32_t per_step,
                                                            double* values, int64_t room,
                                                            kvloupe_engine_work* work, char* error);
/* The JSON of `kvloupe replay --json`. heads: "0,1", NULL: all; last: only the last step. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_replay_json(kvloupe_engine_replay* replay,
                                                         const char* heads, int32_t last,
                                                         const char** text, int64_t* bytes,
                                                         char* error);

/* ---- following tokens ---- */

typedef struct kvloupe_engine_text kvloupe_engine_text;
KVLOUPE_ENGINE_EXPORT const char* kvloupe_engine_text_data(const kvloupe_engine_text* text,
                                                           int64_t* bytes);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_text_destroy(kvloupe_engine_text* text);
/* The JSON of `kvloupe follow --json`. Give either tokens, "120-131,140", or a segment; of the
   request its layers and measures are not read. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_follow(const kvloupe_engine_trace* trace,
                                                    const kvloupe_engine_replay_request* request,
                                                    const char* tokens, const char* segment,
                                                    kvloupe_engine_text** text, char* error);

/* ---- sweeps ---- */

typedef struct kvloupe_engine_sweep_request {
  uint32_t size;            /* sizeof(kvloupe_engine_sweep_request) */
  int32_t compression;      /* KVLOUPE_ENGINE_AS_CAPTURED, ... */
  const char* policies;     /* specs, with commas between them */
  const char* budgets;      /* "10%,128" */
  const char* blocks;       /* "32,128,all"; NULL: the capture's */
  int32_t default_measures; /* 1: the measures of `kvloupe sweep` without --measures */
  int32_t measure_count;
  const char* const* measures; /* more measures, or "all" */
  kvloupe_engine_work* work;   /* NULL: it cannot be stopped */
} kvloupe_engine_sweep_request;

/* One row for each policy, budget, block, layer and head. */
typedef struct kvloupe_engine_sweep kvloupe_engine_sweep;
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_sweep_create(
    const kvloupe_engine_trace* trace, const kvloupe_engine_sweep_request* request,
    kvloupe_engine_sweep** sweep, char* error);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_sweep_destroy(kvloupe_engine_sweep* sweep);

enum { KVLOUPE_ENGINE_SWEEP_NUMBERS = 4, KVLOUPE_ENGINE_SWEEP_TEXTS = 7 };
typedef struct kvloupe_engine_sweep_facts {
  int64_t rows;
  int32_t measures;
  const char* const* measure_names; /* [measures] */
  const double* values;             /* [rows, measures]; NaN where not known */
  const int32_t* numbers;           /* [rows, 4]: budget, block, layer, head */
  /* [rows, 7]: trace, identity, policy, compression, question, prompt_compressed, budget_counts */
  const char* const* texts;
} kvloupe_engine_sweep_facts;
/* Valid as long as the sweep. */
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_sweep_describe(const kvloupe_engine_sweep* sweep,
                                                         kvloupe_engine_sweep_facts* facts);

/* ---- prompts, answers and results files ---- */

/* Functions that take JSON, `bytes` bytes, and give JSON; path: the file, or NULL where none is
   read.
   - first_number: text; its digits
   - has_answer, found_share, answer_f1: [text, [right answers]]; true or false, 0 to 1
   - rules_followed: [text, [{"rule", "text", "count"}, ...]]; 0 to 1
   - first_loop: [token ids]; the place where a loop begins, or null
   - policy_files: spec; a text that changes when a file that the policy reads does
   - fingerprint, of a model's folder or GGUF file: null; empty where it has none
   - gguf_parts, of the first file of a GGUF model: null; the paths of all its files
   - needle_template, of a model's folder or NULL: null; the fields of its needle.json
   - read_text: null; the text of the file
   - find_prompts, of a file or folder: its name; [{"name", "path", "identity", "line" (-1: all of
     the file), "at" (bytes before the line), "question" (-1: the line is one prompt)}, ...]
   - read_prompt: [line, at, perhaps question]; {"segments": [[name, text], ...], "answers",
     "rules", "unread": fields without a use, "doubt": why its score may mislead, "questions": of
     the line, "notes": of a prompt file}
   - parse_prompt: [line, text, perhaps question]; the same of a line that the file need not have
   - results_table, of a results file: whether by head; {"settings": [[name, value], ...],
     "measures", "items": [[state, tokens of the prompt, task, prompt, policy, budget, entries,
   block, compression, seconds, expected, answer], ...], "values": [[item, layer, head, measure,
   number or null], ...]} */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_ask(const char* function, const char* path,
                                                 const char* given, int64_t bytes,
                                                 kvloupe_engine_text** text, char* error);
/* The results file of a study without a study file: a new one, or one to go on with; no other study
   writes to it meanwhile. plan: {"settings", "measures", "sources": [{"name", "identity", "task"}],
   "items": [{"trace": source, "policy", "budget", "block_word", "block", "compression"}]}. */
typedef struct kvloupe_engine_results kvloupe_engine_results;
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_results_open(const char* path, const char* plan,
                                                          int64_t bytes,
                                                          kvloupe_engine_results** results,
                                                          char* error);
/* All of a run: {"item", "problem", "seconds", "entries", "at_once", "prompt": {"stored",
   "expected", "answer"}, "values": [[measure, layer or -1, number or null], ...]}. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_results_record(kvloupe_engine_results* results,
                                                            const char* outcome, int64_t bytes,
                                                            char* error);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_results_close(kvloupe_engine_results* results);

/* ---- writing traces ---- */

/* A trace in the making (docs/trace-format.md). The file has its name once it is finished, and an
   older one stays until then; a writer that is destroyed before leaves nothing. */
typedef struct kvloupe_engine_writer kvloupe_engine_writer;

enum { /* numbers of an array beside KVLOUPE_ENGINE_FLOAT32 and _FLOAT16 */
       KVLOUPE_ENGINE_INT32 = 3,
       KVLOUPE_ENGINE_INT64 = 4,
       KVLOUPE_ENGINE_UINT8 = 5,
       KVLOUPE_ENGINE_MERGE_ROW = 6 /* int32 head, step, into, from; float32 weight */
};

/* `tokens`: the most there can be. From here on SIGTERM, SIGHUP and SIGINT remove unfinished files
   before they end the process, unless it handles them. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_writer_create(const char* path, int32_t tokens,
                                                           kvloupe_engine_writer** writer,
                                                           char* error);
KVLOUPE_ENGINE_EXPORT void kvloupe_engine_writer_destroy(kvloupe_engine_writer* writer);
/* The next `count` tokens of a dataset of this shape; its `axis` is that of the tokens. type:
   KVLOUPE_ENGINE_FLOAT32, or _FLOAT16, which becomes float32 where a number overflows. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_writer_add(kvloupe_engine_writer* writer,
                                                        const char* path, int32_t type,
                                                        const int64_t* shape, int32_t rank,
                                                        int32_t axis, int32_t first, int32_t count,
                                                        const float* numbers, char* error);
/* What the file has of the first `count` tokens of a head, in float32: [count, width]. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_writer_read(kvloupe_engine_writer* writer,
                                                         const char* path, int32_t head,
                                                         int32_t count, float* numbers,
                                                         char* error);
/* A whole dataset. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_writer_array(kvloupe_engine_writer* writer,
                                                          const char* path, int32_t type,
                                                          const int64_t* shape, int32_t rank,
                                                          const void* data, char* error);
/* Lines that begin with the path of a dataset which became float32. */
KVLOUPE_ENGINE_EXPORT const char* kvloupe_engine_writer_notes(kvloupe_engine_writer* writer);
/* Cuts the trace to its tokens and ends it. description: JSON, {"attributes": {path: {name:
   value}}, "texts": [spelled text of each token]}; true and false are flags. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_writer_finish(kvloupe_engine_writer* writer,
                                                           int32_t tokens, const char* description,
                                                           char* error);

/* Any other file, whole or not at all. */
KVLOUPE_ENGINE_EXPORT int32_t kvloupe_engine_write_file(const char* path, const char* bytes,
                                                        int64_t size, char* error);

#ifdef __cplusplus
}
#endif

#endif
