// Stands for libcurl in the wheel. HDF5 uses libcurl in one driver, which reads files in Amazon's S3; kvloupe opens
// files of the machine only. libcurl and what it needs would be 8 MB, and programs that can reach the network.
// Every function fails as libcurl does when it cannot start.
#include <stddef.h>

enum { failed_init = 2 };  // CURLE_FAILED_INIT

int curl_global_init(long flags) {
  (void)flags;
  return failed_init;
}
void curl_global_cleanup(void) {}
void* curl_easy_init(void) { return NULL; }
void curl_easy_cleanup(void* handle) { (void)handle; }
int curl_easy_perform(void* handle) {
  (void)handle;
  return failed_init;
}
int curl_easy_setopt(void* handle, int option, ...) {
  (void)handle;
  (void)option;
  return failed_init;
}
void* curl_slist_append(void* list, const char* text) {
  (void)list;
  (void)text;
  return NULL;
}
void curl_slist_free_all(void* list) { (void)list; }
