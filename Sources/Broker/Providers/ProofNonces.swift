import Synchronization

/// The nonces that servers have issued for the broker's own DPoP proofs.
///
/// For each client, origin and role, only the nonce that arrived last is kept, and only in memory.
///
/// Therefore, after a start of the broker, the first call may be sent twice, because the server requests a nonce.
package final class ProofNonces: Sendable {
    /// The role of the server that issued a nonce (RFC 9449 sections 8 and 9).
    package enum Role: Sendable { case authorization, resource }

    /// The server that issued a nonce, and the client that the nonce is for.
    package struct Place: Sendable, Hashable {
        let provider: ProviderName
        let client: ClientName
        let origin: String
        let role: Role

        package init(provider: ProviderName, client: ClientName, origin: String, role: Role) {
            self.provider = provider
            self.client = client
            self.origin = origin
            self.role = role
        }
    }

    private struct Entry {
        let nonce: String
        let arrivedAt: Duration
        /// The number of the nonce in the order of arrival; the lowest is removed first.
        let number: UInt64
    }

    private struct State {
        var entries: [Place: Entry] = [:]
        var arrivals: UInt64 = 0
    }

    /// The largest number of nonces that are kept.
    package static let maximum = 4096

    /// Guards the table.
    private let state = Mutex(State())
    private let maximum: Int

    package init(maximum: Int = maximum) { self.maximum = maximum }

    /// The number of nonces kept.
    package var count: Int { state.withLock { $0.entries.count } }

    /// Stores a nonce that has just arrived.
    package func note(_ nonce: String, at place: Place, moment: Duration) {
        state.withLock { state in
            state.arrivals += 1
            if state.entries[place] == nil, state.entries.count >= maximum,
                let oldest = state.entries.min(by: { $0.value.number < $1.value.number })?.key
            {
                state.entries[oldest] = nil
            }
            state.entries[place] = Entry(nonce: nonce, arrivedAt: moment, number: state.arrivals)
        }
    }

    /// Returns the newest nonce for a client from a server; nil if there is none.
    package func newest(at place: Place) -> String? { state.withLock { $0.entries[place]?.nonce } }

    /// Returns whether the newest nonce for a client from a server is younger than `age` at a moment; false if there is no nonce.
    package func isFresh(at place: Place, within age: Duration, moment: Duration) -> Bool {
        state.withLock { $0.entries[place].map { moment - $0.arrivedAt < age } ?? false }
    }

    /// Returns whether a header field's value is a valid nonce (RFC 9449 section 8.1), and short enough to be kept.
    package static func isNonce(_ text: String) -> Bool {
        (1...512).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
    }
}
