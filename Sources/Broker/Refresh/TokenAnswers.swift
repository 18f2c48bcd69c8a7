import Synchronization

/// When the last call began that each client's token endpoint granted to this process.
///
/// Refusals that may mean a dead grant end a session only where others were granted something meanwhile (guarantee 2): after the
/// first of them, and before the last was sent. A call that began before the first refusal says nothing of the time since, however
/// late its answer comes.
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
