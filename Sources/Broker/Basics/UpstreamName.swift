/// The configured name of an upstream API that the relay may call.
package struct UpstreamName: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }
}
