// RUN: env CODA_CACHE_DIR=%t/cache coda-cache path | filecheck %s --check-prefix PATH
// RUN: env CODA_CACHE_DIR=%t/cache coda-cache list | filecheck %s --check-prefix LIST
// RUN: env CODA_CACHE_DIR=%t/cache coda-cache prune --all | filecheck %s --check-prefix PRUNE
// RUN: not coda-cache prune --max-age old 2>&1 | filecheck %s --check-prefix AGE

// PATH: {{.*}}cache
// LIST: KEY  FUNCTION  TARGET  SIZE  USED  VERSIONS
// PRUNE: removed 0 files (0 B), 0 are left (0 B)
// AGE: argument --max-age: 'old' is not an age, such as 45m, 12h or 30d
