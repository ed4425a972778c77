# A step of the character model of examples/train_char_lm in PyTorch: forward, loss, backward, clipping, AdamW. usage: python torch_char.py SECONDS PARAMETERS PLAY; prints "answer" and the loss on the last tenth of the play with the parameters in that file, then what timing.py prints of steps that go on from there
import sys,math,torch
import torch.nn as nn, torch.nn.functional as F
from safetensors.torch import load_file
from timing import bench
secs=float(sys.argv[1]); play=open(sys.argv[3],encoding='utf-8',newline='').read()
LAYERS,WIDTH,HEADS,CONTEXT,BATCH=2,64,4,64,16
PEAK,WARM_UP,STEPS,LONGEST=3e-3,50,600,1.0
chars=sorted(set(play)); text=torch.tensor([chars.index(c) for c in play]); end=len(text)*9//10
class Layer(nn.Module):
    def __init__(s):
        super().__init__(); s.norm1=nn.LayerNorm(WIDTH); s.qkv=nn.Linear(WIDTH,3*WIDTH); s.out=nn.Linear(WIDTH,WIDTH)
        s.norm2=nn.LayerNorm(WIDTH); s.up=nn.Linear(WIDTH,4*WIDTH); s.down=nn.Linear(4*WIDTH,WIDTH)
    def forward(s,x):
        b,l,d=x.shape
        q,k,v=s.qkv(s.norm1(x)).view(b,l,3,HEADS,d//HEADS).permute(2,0,3,1,4).unbind(0)
        x=x+s.out(F.scaled_dot_product_attention(q,k,v,is_causal=True).transpose(1,2).reshape(b,l,d))
        return x+s.down(F.gelu(s.up(s.norm2(x))))
class CharLm(nn.Module):
    def __init__(s):
        super().__init__(); s.characters=nn.Embedding(len(chars),WIDTH); s.positions=nn.Embedding(CONTEXT,WIDTH)
        s.layers=nn.ModuleList(Layer() for _ in range(LAYERS)); s.norm=nn.LayerNorm(WIDTH)
    def forward(s,tokens):
        x=s.characters(tokens)+s.positions.weight
        for layer in s.layers: x=layer(x)
        return F.linear(s.norm(x),s.characters.weight)
def windows(starts):
    at=starts[:,None]+torch.arange(CONTEXT)
    return text[at],text[at+1]
def loss_of(model,starts):
    tokens,targets=windows(starts)
    return F.cross_entropy(model(tokens).flatten(0,1),targets.flatten())
model=CharLm(); given=load_file(sys.argv[2])
def put(parameter,*names):
    # Weights of linear maps are stored over (in, out).
    value=torch.cat([given['model.'+n] for n in names],-1); value=value.t() if value.dim()==2 and 'encoder' in names[0] else value
    assert value.shape==parameter.shape,(names,value.shape,parameter.shape)
    with torch.no_grad(): parameter.copy_(value)
put(model.characters.weight,'characters.weight'); put(model.positions.weight,'positions.weight')
for kind in 'weight','bias':
    put(getattr(model.norm,kind),'encoder.norm.'+kind)
    for i,layer in enumerate(model.layers):
        at=f'encoder.layers.{i}.'
        put(getattr(layer.norm1,kind),at+'attention_norm.'+kind); put(getattr(layer.norm2,kind),at+'feed_forward_norm.'+kind)
        put(getattr(layer.qkv,kind),*(f'{at}attention.{p}_proj.{kind}' for p in 'qkv')); put(getattr(layer.out,kind),f'{at}attention.out_proj.{kind}')
        put(getattr(layer.up,kind),f'{at}feed_forward.up.{kind}'); put(getattr(layer.down,kind),f'{at}feed_forward.down.{kind}')
held_out=torch.arange(end,len(text)-CONTEXT,CONTEXT)
with torch.inference_mode(): print(f"answer\t{loss_of(model,held_out).item()}",flush=True)
def rate(step):
    if step<WARM_UP: return PEAK*(step+1)/WARM_UP
    fallen=min((step-WARM_UP+1)/(STEPS-WARM_UP),1)
    return PEAK*(0.1+0.9*0.5*(1+math.cos(math.pi*fallen)))
for variant in 'foreach','fused':
    optimizer=torch.optim.AdamW(model.parameters(),lr=PEAK,betas=(0.9,0.99),weight_decay=0.01,**{variant:True}); done=0
    def step():
        global done
        for group in optimizer.param_groups: group['lr']=rate(done)
        optimizer.zero_grad(set_to_none=True)
        loss=loss_of(model,torch.randint(end-CONTEXT,(BATCH,))); loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(),LONGEST); optimizer.step(); done+=1
        return loss.item()
    for threads in 1,2:
        torch.set_num_threads(threads); bench(f"torch SDPA, {variant} AdamW, threads: {threads}",'char',BATCH*CONTEXT,secs,step)
