import Synchronization

/// What a process remembers for a short time: its refreshes underway, how its store stands, who answered lately, who
/// signs in just now, the proofs that were taken.
final class ProcessMemory: Sendable {
    let flights = RefreshFlights()
    let store: StoreWatch
    let answers = TokenAnswers()
    let signIns = SignInsUnderWay()

    let proofs = TakenProofs()
    /// The scope of its nonces: its own where it alone remembers which proofs were taken, so that after a restart no proof of
    /// before is taken a second time.
    let nonceScope: String

    /// Creates the memory of a process that begins now.
    init(startedAt moment: Duration, nonceScope: String) {
        store = StoreWatch(startedAt: moment)
        self.nonceScope = nonceScope
    }
}

/// When the last call began that each client's token endpoint granted to this process.
///
/// Refusals that may mean a dead grant end a session only where others were granted something meanwhile (guarantee 2). A call that
/// began before the first refusal says nothing of the time since, however late its answer comes.
final class TokenAnswers: Sendable {
    private struct Key: Hashable {
        let provider: ProviderName
        let client: ClientName
    }

    /// Guards the moments; bounded by the configured clients.
    private let moments = Mutex<[Key: Duration]>([:])

    func granted(_ provider: ProviderName, _ client: ClientName, begun moment: Duration) {
        moments.withLock { moments in
            let key = Key(provider: provider, client: client)
            moments[key] = max(moment, moments[key] ?? moment)
        }
    }

    /// Returns whether a call was granted that began after a moment.
    func hasGranted(_ provider: ProviderName, _ client: ClientName, since moment: Duration) -> Bool {
        moments.withLock { $0[Key(provider: provider, client: client)].map { $0 > moment } ?? false }
    }
}
