/// The configured name of a backend, which is a service of the operator's that may ask about sessions.
package struct BackendName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}
