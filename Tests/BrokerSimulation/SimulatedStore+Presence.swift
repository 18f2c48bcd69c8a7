import Broker

/// The presence keys of sessions, and the used proofs that the processes share.
extension SimulatedStore {
    func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult {
        let (world, process) = (world, process)
        return try await around(.registerPresence) { store throws(StoreFailure) in
            let result = try await store.registerPresence(commit)
            if result == .committed { await world.changed(commit.tokenDigest, by: process) }
            return result
        }
    }

    func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool {
        let (world, words) = (world, TraceWords(vault: world.vault))
        return try await process.recording(
            "takeProof \(words.of(name)) \(words.of(until))", { words.of($0) }, failure: { words.of($0) }
        ) { () async throws(StoreFailure) in
            try await perform(nil) { _ in
                // The sweep removes records that have expired, but it stops while a clock is in doubt.
                world.presences.take(name, until: until, now: world.weather.clocksStep ? nil : world.storeTime)
            }
        }
    }

    func returnProof(_ name: Digest) async throws(StoreFailure) {
        let (world, words) = (world, TraceWords(vault: world.vault))
        try await process.recording("returnProof \(words.of(name))", { "done" }, failure: { words.of($0) }) {
            () async throws(StoreFailure) in
            try await perform(nil) { _ in world.presences.giveBack(name) }
        }
    }
}
