/// A session's presence key in its row, which is a `SessionPresence` sealed as `.presence` for the row.
///
/// The key is sealed because it links sessions of one device. The type is a class, so that the rows of sessions without a
/// presence key stay small. The sealed value is opened only when it is needed.
package final class StoredPresence: Sendable, Equatable {
    package let sealed: Sealed

    package init(_ sealed: Sealed) { self.sealed = sealed }

    package static func == (left: StoredPresence, right: StoredPresence) -> Bool { left.sealed == right.sealed }
}
