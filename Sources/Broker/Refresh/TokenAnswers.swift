import Synchronization

/// When each client's token endpoint last granted something to this process.
///
/// Refusals without a body end a session only where others were answered meanwhile (guarantee 2).
final class TokenAnswers: Sendable {
    private struct Key: Hashable {
        let provider: ProviderName
        let client: ClientName
    }

    /// Guards the moments; bounded by the configured clients.
    private let moments = Mutex<[Key: Duration]>([:])

    func granted(_ provider: ProviderName, _ client: ClientName, at moment: Duration) {
        moments.withLock { $0[Key(provider: provider, client: client)] = moment }
    }

    /// Returns whether something was granted after a moment.
    func hasGranted(_ provider: ProviderName, _ client: ClientName, since moment: Duration) -> Bool {
        moments.withLock { $0[Key(provider: provider, client: client)].map { $0 > moment } ?? false }
    }
}
