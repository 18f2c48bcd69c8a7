/// A sealed value, with the row and the column that contain it.
package struct SealedRow: Sendable, Equatable {
    package let place: SealedPlace
    /// The row's key.
    package let key: Digest
    /// The row that the seal is bound to.
    ///
    /// For a value in the outbox, this is another row; for all other values, it is the row that contains the value.
    package let boundTo: Digest
    package let sealed: Sealed

    package init(place: SealedPlace, key: Digest, boundTo: Digest, sealed: Sealed) {
        self.place = place
        self.key = key
        self.boundTo = boundTo
        self.sealed = sealed
    }
}
