// The examples from the documents, compiled. A test of the documents compares its code blocks with this file.
import { Coatcheck, CredentialStorage, ProofKey, Session, SessionEvent, SignInBrowser, StepUp } from '../coatcheck'

export async function readme(storage: CredentialStorage, browser: SignInBrowser, abort: AbortController, show: (event: SessionEvent) => void) {
    const coatcheck = new Coatcheck({ broker: 'http://127.0.0.1:8080', client: 'android', transport: 'bearer', storage, browser })
    const signIn = await coatcheck.signIn('oidc')
    const orders = await coatcheck.relay('api', 'private/orders')
    for await (const event of coatcheck.events(abort.signal)) show(event)
    await coatcheck.signOut()
    return [signIn, orders]
}

export async function relays(coatcheck: Coatcheck, order: object) {
    const page = await coatcheck.relay('api', 'private/orders', { query: 'page=2' })
    const made = await coatcheck.relay('api', 'private/orders', {
        method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(order) })
    return [page, made]
}

export async function payment(
    storage: CredentialStorage, browser: SignInBrowser, key: ProofKey, presenceKey: ProofKey, confirms: (demand: StepUp) => Promise<boolean>, body: string
) {
    const coatcheck = new Coatcheck({
        broker: 'https://auth.example.com', client: 'android', transport: 'bearer', storage, browser, key, presenceKey,
        onStepUp: demand => confirms(demand),
    })
    await coatcheck.signIn('cloudentity', { stepUp: { maxAge: 600 } })
    await coatcheck.registerPresenceKey()
    return await coatcheck.relay('bank', 'payments', { method: 'POST', body, presence: true })
}

export async function moveIn(coatcheck: Coatcheck, show: (session: Session) => void) {
    const outcome = await coatcheck.moveIn('oidc')
    if (outcome.kind === 'moved') show(outcome.session)
    if (outcome.kind === 'signIn') await coatcheck.signIn('oidc')
}
