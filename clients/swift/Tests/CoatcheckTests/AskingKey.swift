import Foundation

@testable import Coatcheck

/// A presence key that asks its user before each signature.
///
/// A test can make the user slow, or let the user refuse.
final class AskingKey: ProofKey, @unchecked Sendable {
    let inner: SoftwareProofKey
    private let lock = NSLock()
    private var state = (prompts: 0, now: 0, most: 0, holds: false, refuses: false)

    init() throws { inner = try SoftwareProofKey() }

    var prompts: Int { lock.withLock { state.prompts } }
    /// The largest number of prompts at the same time.
    var most: Int { lock.withLock { state.most } }
    var holds: Bool {
        get { lock.withLock { state.holds } }
        set { lock.withLock { state.holds = newValue } }
    }
    var refuses: Bool {
        get { lock.withLock { state.refuses } }
        set { lock.withLock { state.refuses = newValue } }
    }

    func publicKey() async throws -> ProofPublicKey? { try await inner.publicKey() }
    func make() async throws -> ProofPublicKey { try await inner.make() }

    func signature(over bytes: Data) async throws -> Data {
        lock.withLock {
            state.prompts += 1
            state.now += 1
            state.most = max(state.most, state.now)
        }
        defer { lock.withLock { state.now -= 1 } }
        while holds { try await Task.sleep(for: .milliseconds(10)) }
        if refuses { throw CoatcheckError.cancelled }
        return try await inner.signature(over: bytes)
    }
}
