package import Broker
import Synchronization

/// Counts open connections by client address, so that one address cannot take them all (SEC-105).
package final class ConnectionCounter: Sendable {
    private let maximum: Int
    private let exempt: @Sendable (IPAddress) -> Bool
    private let open = Mutex<[IPAddress: Int]>([:])

    /// Creates a counter that lets every address have `maximum` connections; `exempt` ones (trusted proxies, loopback in
    /// development) have as many as they want.
    package init(maximum: Int, exempt: @escaping @Sendable (IPAddress) -> Bool) {
        self.maximum = maximum
        self.exempt = exempt
    }

    /// Counts a new connection; false when the address has enough.
    func opened(_ address: IPAddress) -> Bool {
        guard !exempt(address) else { return true }
        let key = address.limitKey
        return open.withLock { open in
            let count = open[key, default: 0]
            guard count < maximum else { return false }
            open[key] = count + 1
            return true
        }
    }

    /// Counts a connection that `opened` let in as closed.
    func closed(_ address: IPAddress) {
        guard !exempt(address) else { return }
        let key = address.limitKey
        open.withLock { open in
            let count = open[key, default: 0]
            open[key] = count > 1 ? count - 1 : nil
        }
    }
}
