/// The party that pays for checking the proofs in a request.
package struct ProofCharge: Sendable {
    private let ledger: ChargeLedger?
    /// The address that the proofs come from; nil if an authenticated backend sends them.
    private let address: IPAddress?

    /// The charge of a caller who has no limits and pays nothing.
    package static let nobody = ProofCharge(ledger: nil, address: nil)

    private init(ledger: ChargeLedger?, address: IPAddress?) {
        self.ledger = ledger
        self.address = address
    }

    /// Creates the charge for calls of an authenticated backend, which only the session pays for.
    package init(ofBackendIn ledger: ChargeLedger) { self.init(ledger: ledger, address: nil) }

    /// Creates the charge of an address.
    init(_ address: IPAddress, in ledger: ChargeLedger) { self.init(ledger: ledger, address: address) }

    /// Checks a session's proof, which is charged before the check.
    ///
    /// Returns the check's result.
    func check(
        of session: Digest, _ check: () async -> ProofRefusal?
    ) async throws(BrokerProblem) -> ProofRefusal? {
        guard let ledger else { return await check() }
        return try await ledger.signatureFaults.check(of: session, from: address, check)
    }
}
