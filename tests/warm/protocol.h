#pragma once

#include <sys/resource.h>
#include <sys/types.h>

// What tests/warm/client.cpp and tests/warm/server.cpp say to each other, over a Unix socket.

namespace kvloupe::warm {

/// The client's first message. The descriptors of its standard input, output, errors and working
/// folder come with it; after it come its words and its environment, each text with its end mark.
struct Request {
  rlimit limits[RLIM_NLIMITS];
  mode_t mask;
  unsigned words;
  unsigned settings;  // of the environment
  unsigned bytes;     // of all these texts
};

/// The server's answers: first the process that runs; 0: the client must start the program itself.
using Started = pid_t;

/// And when that process has ended: its status as waitpid gives it.
using Ended = int;

/// Where the client finds the server, and the program that it starts without one.
constexpr const char* kSocket = "KVLOUPE_WARM_SOCKET";
constexpr const char* kProgram = "KVLOUPE_WARM_PROGRAM";

}  // namespace kvloupe::warm
