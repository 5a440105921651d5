// A model in another process of this machine: rank 0 of a sharded model, whose death or silence this process
// outlives. Everything above the backend runs here and sees one BackendModel.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/shard/message_socket.h"

namespace lacuna {

/// One end of what connects the two processes.
struct RemoteConnection {
  MessageSocket passes;     ///< a pass at a time, and what happens to sequences between passes
  MessageSocket questions;  ///< signs of life, and what can be told while a pass is computed
};

/// Both connections to the process that listens under this name.
RemoteConnection connect_as_host(const std::string& name);

/// In the process that computes: does what the other end asks of the model until that ends, and returns.
///   check  called about once a second while no pass is computed; a RankError that it throws is told to the
///          other end
void host_model(const BackendModel& model, RemoteConnection connection, const std::function<void()>& check);
/// Instead: tells the other end why there is no model.
void refuse_model(RemoteConnection connection, const std::string& sentence);

/// In the other process: waits until the model is there. Its passes, and new sequences, throw a RankError
/// once the process has ended or a rank has; failure() says so within seconds, also while no pass is
/// computed. Refuses what reads cells, outputs, logits or attention with an InputError. Throws InputError if
/// there is no model.
///   heartbeat_timeout  a process that does not respond for so long counts as failed
///   end                ends the process, if it still runs; any thread, several times
std::shared_ptr<const BackendModel> remote_model(const ModelConfig& config, RemoteConnection connection,
                                                 std::chrono::milliseconds heartbeat_timeout,
                                                 std::function<void()> end);

}  // namespace lacuna
