/// The name of a sort of child sessions that a client may have (`clients.NAME.children.KIND`).
///
/// The operator chooses the name, for example `widget`.
package struct ChildKind: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }

    /// The kind of the child sessions that hand-overs make for web views.
    ///
    /// An app cannot request such a child directly.
    package static let web = ChildKind(unchecked: "web")
}
