import Synchronization

/// The clients that have a granted import, as far as this process knows, so that the store is asked only one time.
///
/// There is at most one entry for each configured client, and for each client id that a client had before.
final class ImportGrants: Sendable {
    /// Guards the digests of the providers and client ids.
    private let known = Mutex<Set<Digest>>([])

    func contains(_ key: Digest) -> Bool { known.withLock { $0.contains(key) } }

    func insert(_ key: Digest) { known.withLock { _ = $0.insert(key) } }
}

/// The record of a client's first granted import.
///
/// Before this grant, a refused refresh token may be good. A token that belongs to another client is refused with
/// `invalid_grant`, like a dead token (RFC 6749 section 5.2). So a wrong `client_id` in the configuration would otherwise sign
/// out every phone.
struct ImportProof: Sendable {
    let context: BrokerContext
    let provider: ProviderName
    /// The client's id at the provider.
    let clientID: String

    private var key: Digest { context.vault.index(.importGrant, [provider.text, clientID]) }

    /// Records a granted import, unless this process knows of an earlier one.
    func note() async throws(StoreFailure) {
        let key = key
        guard !context.memory.importGrants.contains(key) else { return }
        try await context.store.noteImportGrant(key, at: context.clock.now())
        context.memory.importGrants.insert(key)
    }

    /// Whether an import of the client was granted before.
    func isKnown() async throws(StoreFailure) -> Bool {
        let key = key
        if context.memory.importGrants.contains(key) { return true }
        guard try await context.store.hasImportGrant(key) else { return false }
        context.memory.importGrants.insert(key)
        return true
    }
}
