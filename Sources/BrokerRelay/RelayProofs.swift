package import Broker

/// The parts that the relay needs to make DPoP proofs; the signer has the keys.
package struct RelayProofs: Sendable {
    let signer: any ProofSigner
    let clock: BrokerClock
    let nonces: ProofNonces

    package init(_ signer: any ProofSigner, _ clock: BrokerClock, _ nonces: ProofNonces) {
        self.signer = signer
        self.clock = clock
        self.nonces = nonces
    }
}
