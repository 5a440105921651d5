// A model in another process of this machine (rank 0 of a sharded model). This process survives if that one
// ends or hangs; it runs everything above the backend and sees one BackendModel.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/shard/message_socket.h"

namespace lacuna {

/// One end of the connection between the two processes.
struct RemoteConnection {
  MessageSocket passes;     ///< requests in order: passes and changes of sequences
  MessageSocket questions;  ///< heartbeats, and requests that are answered during a pass
};

/// Both connections to the process that listens under this name.
RemoteConnection connect_as_host(const std::string& name);

/// In the compute process: serves requests of the client until it disconnects.
///   check  called about once a second between passes; a RankError from it is reported to the client
void host_model(const BackendModel& model, RemoteConnection connection, const std::function<void()>& check);
/// Instead of host_model(): tells the client why there is no model.
void refuse_model(RemoteConnection connection, const std::string& sentence);

/// In the client process: waits until the model is loaded; throws InputError if loading fails. After the
/// compute process or a rank has ended, passes and new sequences throw RankError, and failure() reports it
/// within seconds. Throws InputError on requests for cells, outputs, logits or attention.
///   heartbeat_timeout  without a response for this long, the compute process counts as failed
///   end                ends the compute process if it runs; called by any thread, perhaps repeatedly
std::shared_ptr<const BackendModel> remote_model(const ModelConfig& config, RemoteConnection connection,
                                                 std::chrono::milliseconds heartbeat_timeout,
                                                 std::function<void()> end);

}  // namespace lacuna
