import Synchronization

/// The nonces that servers have given this process for its proofs.
///
/// Only the newest by arrival is kept for each client, origin and role, and only in memory.
///
/// After a start, the first call is therefore challenged once.
package final class ProofNonces: Sendable {
    /// The role of the server that issued a nonce (RFC 9449 sections 8 and 9).
    package enum Role: Sendable { case authorization, resource }

    /// A server, and the client that its nonces are for.
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
        /// The number of the arrival; the lowest is removed first.
        let number: UInt64
    }

    private struct State {
        var entries: [Place: Entry] = [:]
        var arrivals: UInt64 = 0
    }

    /// The most nonces that are kept.
    package static let maximum = 4096

    /// Guards the table.
    private let state = Mutex(State())
    private let maximum: Int

    package init(maximum: Int = maximum) { self.maximum = maximum }

    /// The number of nonces kept.
    package var count: Int { state.withLock { $0.entries.count } }

    /// Notes a nonce that has just arrived.
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

    /// Returns the newest nonce of a place, or nil.
    package func newest(at place: Place) -> String? { state.withLock { $0.entries[place]?.nonce } }

    /// Returns whether the newest nonce of a place is younger than `age` at a moment.
    package func isFresh(at place: Place, within age: Duration, moment: Duration) -> Bool {
        state.withLock { $0.entries[place].map { moment - $0.arrivedAt < age } ?? false }
    }

    /// Returns whether a field's value can be a nonce (RFC 9449 section 8.1) and is short enough to be kept.
    package static func isNonce(_ text: String) -> Bool {
        (1...512).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
    }
}
