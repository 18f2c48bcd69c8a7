/// The address and session that pay for checking the proofs in a request.
package struct ProofCharge: Sendable {
    private let ledger: ChargeLedger?
    /// The address that the proofs come from; nil if an authenticated backend sends them.
    private let address: IPAddress?

    /// The charge for a caller without limits: its checks cost nothing.
    package static let nobody = ProofCharge(ledger: nil, address: nil)

    /// Charges the session and the address for a signature check, and then runs the check.
    ///
    /// Returns the check's result; nil if the signature is right.
    func check(
        of session: Digest, _ check: () async -> ProofRefusal?
    ) async throws(BrokerProblem) -> ProofRefusal? {
        guard let ledger else { return await check() }
        return try await ledger.signatureFaults.check(of: session, from: address, check)
    }
}

extension ProofCharge {
    /// Creates the charge for a call by an authenticated backend.
    ///
    /// Only the session pays for the call, not the backend's address.
    package init(ofBackendIn ledger: ChargeLedger) { self.init(ledger: ledger, address: nil) }

    /// Creates the charge for calls from an address.
    ///
    /// The address and the session pay together.
    init(_ address: IPAddress, in ledger: ChargeLedger) { self.init(ledger: ledger, address: address) }
}
