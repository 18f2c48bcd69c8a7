/// A session's presence key as it is stored in the session's row, sealed for this row (`SessionPresence`, kind `.presence`).
///
/// The key is sealed because it links sessions of one device. The type is a class, so that the rows of sessions without a
/// presence key stay small. The sealed value is opened only when the presence key is needed.
package final class StoredPresence: Sendable, Equatable {
    package let sealed: Sealed

    package init(_ sealed: Sealed) { self.sealed = sealed }

    package static func == (left: StoredPresence, right: StoredPresence) -> Bool { left.sealed == right.sealed }
}
