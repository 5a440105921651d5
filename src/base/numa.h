// Memory of machines with several NUMA nodes, whose cores reach the memory of their own node faster.
#pragma once

namespace lacuna {

/// Nodes whose memory this process may use; 1 where the system does not say, or has no nodes.
int num_memory_nodes();

/// From now on pages that the calling thread, or a thread that it starts later, touches first come from all
/// these nodes in turn, so that no node serves all readers of a matrix. Does nothing where there is one node.
/// Throws InputError where the system refuses it.
void interleave_memory();

}  // namespace lacuna
