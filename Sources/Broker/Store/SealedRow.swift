/// A sealed value where it lies.
package struct SealedRow: Sendable, Equatable {
    package let place: SealedPlace
    /// The row's key.
    package let key: Digest
    /// The row that the seal is bound to: its own, but for the outbox's.
    package let boundTo: Digest
    package let sealed: Sealed

    package init(place: SealedPlace, key: Digest, boundTo: Digest, sealed: Sealed) {
        self.place = place
        self.key = key
        self.boundTo = boundTo
        self.sealed = sealed
    }
}
