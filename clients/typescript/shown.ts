// What the documents show, compiled: a test of the documents looks for their blocks here.
import { Coatcheck, CredentialStorage, SessionEvent, SignInBrowser } from './coatcheck'

export async function readme(storage: CredentialStorage, browser: SignInBrowser, abort: AbortController, show: (event: SessionEvent) => void) {
    const coatcheck = new Coatcheck({ broker: 'https://auth.example.com', client: 'android', transport: 'bearer', storage, browser })
    const signIn = await coatcheck.signIn('cloudentity')
    const orders = await coatcheck.relay('shop', 'orders')
    for await (const event of coatcheck.events(abort.signal)) show(event)
    await coatcheck.signOut()
    return [signIn, orders]
}
